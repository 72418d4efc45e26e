#!/usr/bin/env bash
# diffprivlib 0.6.6 with scikit-learn 1.9.1: pip installs the two together without a word, and the package cannot
# be imported, not even for a noisy mean.
#
# A guess: the requirements of a package say with which versions it works, so what pip installs is importable; and
# functions that use numpy alone do not depend on decision trees. Seen: its requirement on scikit-learn has no
# upper end, `import diffprivlib` loads all models, and one of them imports a private name of scikit-learn's trees
# that newer versions do not have: ImportError. With 1.5.2 the same import works.
# Fails if that changes. Needs Python 3.11 and pip's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
install() { python3 -m pip install --quiet --disable-pip-version-check --target "$@" 2>/dev/null; }
install "$folder/new" diffprivlib==0.6.6 scikit-learn==1.9.1
install "$folder/old" diffprivlib==0.6.6 scikit-learn==1.5.2
for place in old new; do
  PYTHONPATH="$folder/$place" python3 - <<'END' | tee "$folder/$place.txt"
import sklearn

try:
    import diffprivlib
    found = diffprivlib.__version__
except ImportError as error:
    found = f"ImportError: {str(error).split(' (')[0]}"
print(sklearn.__version__, found)
END
done
grep -qx "1.5.2 0.6.6" "$folder/old.txt"
grep -qx "1.9.1 ImportError: cannot import name 'DOUBLE' from 'sklearn.tree._tree'" "$folder/new.txt"
