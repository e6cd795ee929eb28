"""Who comes in, through every door, with clients that strangers wrote."""
