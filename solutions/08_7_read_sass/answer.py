def read_listings():
    """Twelve numbers that the listings a, b and c say; the contract says which."""
    ### BEGIN SOLUTION
    keys, head_dim = 32, 64  # n of the product with two descriptors, n of the one with registers and .tnspB
    products, wait = 6, 495  # from the label to the branch back: 4 with K, 2 with V; 0x1 leaves one in flight
    exponentials, hidden = 18, 0  # 16 weights and two factors alpha; all of them below the wait with 0x0
    consumer, producer = 0xA0, 0x20
    q_load = 956  # no try-wait for an empty stage before it, and outside the loop
    arrives, serialised = 6, 1  # one before every HGMMA of b
    moves = 8  # two halves of a descriptor before each of 4 products
    ### END SOLUTION
    of_a = (keys, head_dim, products, wait, exponentials, hidden, consumer, producer, q_load)
    return (*of_a, arrives, serialised, moves)
