"""What each path does: each module makes a router over an engine, and the application joins them."""
