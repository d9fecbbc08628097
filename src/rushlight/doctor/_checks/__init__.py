"""One class per mistake. Every file here is loaded; nothing lists them."""
