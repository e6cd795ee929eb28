"""What nodes know of each other: the metadata store's contents, and the image of it that every node keeps."""
