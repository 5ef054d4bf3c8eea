"""Where guests and sleepers fit, and why some wait. Pure: decided on values of a group alone."""
