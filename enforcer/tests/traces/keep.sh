#!/bin/sh
# Puts what record.sh printed into files of this folder; passes everything else on.
set -eu
folder=$(dirname "$0")
rm -f "$folder"/*.trace
while IFS= read -r line; do
    line=${line%"$(printf '\r')"}
    case $line in
        "TRACE "*)
            rest=${line#TRACE }
            printf '%s\n' "${rest#* }" >>"$folder/${rest%% *}"
            ;;
        *) printf '%s\n' "$line" ;;
    esac
done
