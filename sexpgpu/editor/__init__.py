"""What an editor is served: the text as it is being typed, and what the compiler knows of it."""
