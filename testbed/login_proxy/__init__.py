"""What a login proxy before the board needs in tests: a real oauth2-proxy, and an OpenID provider."""
