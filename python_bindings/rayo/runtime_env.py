"""rayo.runtime_env: names of Ray's module of the same name."""


class RuntimeEnv(dict):
    """The environment of a job (init), task or actor (options), as a dict of what was given; whoever takes it says which keys
    there are.

        ray.init(runtime_env=RuntimeEnv(env_vars={"MODE": "fast"}, working_dir="."))
    """

    def __init__(self, **given):
        super().__init__({key: value for key, value in given.items() if value is not None})
