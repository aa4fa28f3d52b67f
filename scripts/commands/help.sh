# shellcheck shell=bash
# help: lists the commands
echo "usage: ./dev COMMAND [ARGUMENTS]"
for file in scripts/commands/*.sh; do
    sed -n '2s/^# /  /p' "$file"
done
