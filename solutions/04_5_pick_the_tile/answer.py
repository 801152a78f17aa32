def pick_tile(tflops, gbps, itemsize, block_k, num_stages, smem_bytes, acc_bytes):
    """(block_m, block_n): the smallest tile that fits and reaches the ridge, or else the best one that fits."""

    ### BEGIN SOLUTION
    def intensity(tile):
        block_m, block_n = tile
        return 2 * block_m * block_n / ((block_m + block_n) * itemsize)

    def fits(tile):
        block_m, block_n = tile
        stages_bytes = num_stages * (block_m + block_n) * block_k * itemsize
        return stages_bytes <= smem_bytes and 4 * block_m * block_n <= acc_bytes

    sizes = (16, 32, 64, 128, 256)
    tiles = [(m, n) for m in sizes for n in sizes if n <= m and fits((m, n))]
    enough = [tile for tile in tiles if intensity(tile) >= 1000 * tflops / gbps]
    if enough:
        return min(enough, key=lambda tile: (tile[0] * tile[1], -intensity(tile)))
    return max(tiles, key=intensity)
    ### END SOLUTION
