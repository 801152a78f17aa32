def sectors_per_request():
    """Sectors that one load of a warp touches, for five loads; arrays start at a sector's border."""
    ### BEGIN SOLUTION
    # GIVEN: one_further = 0  # x[lane + 1], floats of 4 bytes
    # GIVEN: every_third = 0  # x[3 * lane]
    # GIVEN: backwards = 0  # x[31 - lane]
    # GIVEN: vectors = 0  # x4[lane], float4 of 16 bytes
    # GIVEN: repeated = 0  # x[lane / 8], rounded down
    one_further = 5  # bytes 4 to 131: the sectors 0 to 4
    every_third = 12  # bytes 0 to 375, a number in each of 12 sectors
    backwards = 4  # the same 128 bytes as x[lane]
    vectors = 16  # 32 lanes of 16 bytes are 512 bytes
    repeated = 1  # four numbers, 16 bytes
    ### END SOLUTION
    return one_further, every_third, backwards, vectors, repeated
