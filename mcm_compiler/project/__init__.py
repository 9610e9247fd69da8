"""A project: the models of a repository, what each is compiled for, and one build of them all."""
