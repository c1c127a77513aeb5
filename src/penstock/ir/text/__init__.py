"""Text form of graphs: constants by digest, labels, attributes, a printer and a reader."""
