#!/usr/bin/env bash
# Builds the documentation into .build/docs with the toolchain's own DocC: the guide (docs/guide), and the library products.

set -euo pipefail
cd "$(dirname "$0")/.."
modules=(
    Timestamps Handlers HandlerMacrosSupport HandlersTestKit XMPPCore XMPPTransport IQTracker XMPPAccount XMPPModules PubSub Upload Omemo
    XMPPTestKit AccountTestKit HandlersPostgres
)

docc=$(command -v docc) || docc=$(dirname "$(readlink -f "$(command -v swift)")")/docc
[ -x "$docc" ] || {
    echo "docs: this toolchain has no docc." >&2
    exit 1
}

work=.build/docs-work
rm -rf "$work" .build/docs
mkdir -p "$work"
# The command also tries the macro's own modules and the tests, fails for those and says so in its status; a graph that
# is needed and missing is noticed below.
swift package dump-symbol-graph --skip-synthesized-members --emit-extension-block-symbols >"$work/log" 2>&1 || true
graphs=$(sed -n 's/^Files written to //p' "$work/log")
[ -n "$graphs" ] || {
    cat "$work/log" >&2
    exit 1
}

scripts/public-api.py "$graphs" "${modules[@]}" >docs/reference/public-api.md

# In this order each module can link to those before it.
archives=("$work/Guide.doccarchive")
dependencies=(--dependency "$work/Guide.doccarchive")
scripts/guide-articles.py "$work/Guide.docc"
"$docc" convert "$work/Guide.docc" --output-path "$work/Guide.doccarchive" --fallback-display-name Guide \
    --fallback-bundle-identifier Guide --enable-experimental-external-link-support --warnings-as-errors | sed '/^$/d'
for module in "${modules[@]}"; do
    mkdir "$work/$module"
    # A module's own graph, and those of what it adds to others ("Module@Other").
    cp "$graphs/$module.symbols.json" "$work/$module/"
    for extension in "$graphs/$module@"*.symbols.json; do [ ! -e "$extension" ] || cp "$extension" "$work/$module/"; done
    catalog=()
    [ ! -d "Sources/$module/$module.docc" ] || catalog=("Sources/$module/$module.docc")
    "$docc" convert "${catalog[@]}" --additional-symbol-graph-dir "$work/$module" --output-path "$work/$module.doccarchive" \
        --fallback-display-name "$module" --fallback-bundle-identifier "$module" \
        --enable-experimental-external-link-support --warnings-as-errors "${dependencies[@]}" | sed '/^$/d'
    archives+=("$work/$module.doccarchive")
    dependencies+=(--dependency "$work/$module.doccarchive")
done
"$docc" merge "${archives[@]}" --synthesized-landing-page-name "Durable Handlers" --output-path .build/docs
rm -rf "$work"
echo "The documentation is in .build/docs."
