"""What is seen of a day while it is played: values, and who gathers them."""
