"""How a circuit's ground looks: kinds, surfaces, colours and textures."""
