# SPDX-License-Identifier: MIT OR Apache-2.0
# Sourced by run.sh. Each file of messages/ says in comments what is to be printed: "expect: text"
# for its own line; "flags: .." how it is compiled, if not for its syntax alone.
for source in "$here"/messages/*.sc; do
    name=$(basename "$source")
    flags=$(sed -n 's|.*/\* flags: \(.*\) \*/|\1|p' "$source")
    # shellcheck disable=SC2086
    "$splitcc" ${flags:--fsyntax-only} "$source" -o "$work/nothing" > "$work/log" 2>&1
    status=0
    count=$(grep -c 'expect: ' "$source")
    while IFS=: read -r line text; do
        text=${text#*expect: }
        text=${text% \*/*}
        grep -F "$name:$line:" "$work/log" | grep -qF -- "$text" || { status=1; echo "missing at line $line: $text" >> "$work/log"; }
    done < <(grep -n 'expect: ' "$source")
    told=$(grep -cE "^[^ ].*: (error|warning): " "$work/log")
    [ "$told" = "$count" ] || { status=1; echo "$told messages instead of $count" >> "$work/log"; }
    result "messages: $name" $status "$work/log"
done
# Every message in the compiler's source is one of those; no source is known to reach a message
# marked "guard:".
messages_of_source() {
    sed -n '/guard:/d; /"%0"/d; s/.*\(report\|look\|complain\|getCustomDiagID\)([^"]*"\([^"]*\)".*/\2/p; s/.*replaceAll(text, "[^"]*", "\([^"]*\)").*/\1/p' "$here"/../src/{action,lower,printer,semantics,tokens}.cpp | sort -u
}
sed -n 's|.*expect: \(.*\) \*/.*|\1|p' "$here"/messages/*.sc > "$work/expected"
status=0
: > "$work/log"
while IFS= read -r text; do
    pattern=$(printf '%s' "$text" | sed 's/[][\.*^$]/\\&/g; s/%0/.*/g')
    grep -q -- "$pattern" "$work/expected" || { status=1; echo "no test has it: $text" >> "$work/log"; }
done < <(messages_of_source)
[ "$(messages_of_source | wc -l)" -ge 20 ] || { status=1; echo "messages are not found in the source any more" >> "$work/log"; }
result "messages: each has a test ($(messages_of_source | wc -l))" $status "$work/log"
