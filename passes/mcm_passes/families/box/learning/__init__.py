"""The placer with a policy that learned from other steps, and how that is trained."""
