"""Publishing a built directory to the Hub, and getting it back: checked before, during and after."""
