"""What a release is made of: dependencies with their licences (`dependencies`), the container
(`containerfile`).

python -m tests.release.dependencies       write requirements.lock and the page of dependencies again
python -m tests.release.containerfile ..   run the Containerfile's commands, as .ci/archives does
"""
