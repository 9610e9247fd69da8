"""The policy that cuts pipelines of models that it has not seen (Auto-MAP, section 4.4).

`random_cases` are what it learns on, `policy_lookahead` completes pipelines, `policy_features` is
what the policy sees, `policy_environment` where it learns, `published_environment` the same as in
the paper, `policy_inference` answers, and `trainer` trains, which `plugin` registers.
"""
