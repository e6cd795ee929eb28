"""The documentation as a site: reference pages and drawings from the code, then a static site without the network."""
