"""What importing and parsing cost."""

import subprocess
import sys


def test_the_package_is_light_to_import() -> None:
    code = (
        "import sys, action_reward_models.schemas.actions\n"
        "print(sorted({'torch', 'pyarrow', 'datasets', 'yaml', 'PIL', 'numpy', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
