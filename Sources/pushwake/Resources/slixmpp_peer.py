"""The slixmpp peer."""
