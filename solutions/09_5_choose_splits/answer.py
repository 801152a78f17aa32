def choose_num_splits(num_pairs, num_tiles, num_slots):
    """The fewest splits that keep the slots at least 85 % as busy as the best number of splits would."""
    ### BEGIN SOLUTION
    busy = {}
    for num_splits in range(1, num_tiles + 1):
        tiles = -(-num_tiles // num_splits)  # of a split
        if (num_splits - 1) * tiles >= num_tiles:
            continue  # the last split would have no tile
        blocks = num_pairs * num_splits
        waves = -(-blocks // num_slots)
        busy[num_splits] = blocks / (waves * num_slots)
    return min(n for n, efficiency in busy.items() if efficiency >= 0.85 * max(busy.values()))
    ### END SOLUTION
