"""The demo: a face detector trained with the derived backward of a GIoU kernel."""
