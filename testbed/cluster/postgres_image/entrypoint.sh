#!/bin/sh
# Makes the database at the first start, then becomes the server: it is PID 1 and is given the signals.
# POSTGRES_PASSWORD (or POSTGRES_PASSWORD_FILE), POSTGRES_USER [postgres], POSTGRES_DB [the user's name], PGDATA.
set -eu

case "${1:-postgres}" in
    -*) set -- postgres "$@" ;;
    postgres) ;;
    *) exec "$@" ;;
esac

make_database() {
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
        POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    fi
    if [ -z "${POSTGRES_PASSWORD:-}" ]; then
        echo "POSTGRES_PASSWORD is empty: the superuser needs a password." >&2
        exit 1
    fi
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    # Made beside its place and then renamed: a pod that is killed meanwhile leaves nothing half-made.
    unfinished=$PGDATA.unfinished
    rm -rf "$unfinished"
    mkdir -p "$unfinished"
    chmod 700 "$unfinished"
    password=$PGDATA.password
    (umask 077 && printf '%s\n' "$POSTGRES_PASSWORD" > "$password")
    initdb --pgdata="$unfinished" --username="$user" --pwfile="$password" --encoding=UTF8 --auth-local=trust \
        --auth-host=scram-sha-256
    rm "$password"
    echo 'host all all all scram-sha-256' >> "$unfinished/pg_hba.conf"
    echo "listen_addresses = '*'" >> "$unfinished/postgresql.conf"
    if [ "$database" != postgres ]; then
        echo "CREATE DATABASE \"$database\"" | postgres --single -j -D "$unfinished" postgres > /dev/null
    fi
    mv "$unfinished" "$PGDATA"
}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    make_database
fi
unset POSTGRES_PASSWORD
exec "$@"
