// What the node says of its page: a node with `rest.console_read_only` serves `true` here.

export const isReadOnlyNode = false;
