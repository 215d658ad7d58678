"""What datasets and models rest on: references, arm.lock, and the files they stand for."""
