"""A page in the browser that shows a policy, for any environment."""
