# wakeboard's images:  docker build --target worker .     (or operator, board, jobs, worker-build)
#
#   operator, worker, board, jobs   without installer and compiler; user 65532
#   worker-build               the worker with its installer, to add packages in a multi-stage build: docs/worker-image.md
#
# Everything is installed by hash from locks/. Without a network: `make wheelhouse` first, then build with
# --network=none --build-arg PIP_NO_INDEX=1.
# Builds are reproducible if the builder sets the times of files (SOURCE_DATE_EPOCH and rewrite-timestamp, or --timestamp).
# The file uses only what every builder supports (no RUN --mount, no here-documents). Each stage declares its ARGs.

# Any image with Python 3.11 or newer and its venv module, on glibc. All stages must have the same. Pin it by its digest:
# --build-arg BASE=python:3.13-slim-trixie@sha256:…
ARG BASE=python:3.13-slim-trixie

# ---------------------------------------------------------------------------- the base of all images

# Compiles the standard library: official images have no bytecode of it, and only root could write it later.
FROM ${BASE} AS runtime
RUN set -eu; \
    library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))'); \
    rm -rf "$library"/ensurepip "$library"/site-packages/pip* /usr/share/python-wheels /usr/local/bin/pip* /usr/bin/pip*; \
    python3 -m compileall -q --invalidation-mode unchecked-hash \
        -x '/(test|idlelib|lib2to3|tkinter|turtledemo|site-packages|dist-packages)/' "$library"; \
    mkdir /app; \
    echo 'wakeboard:x:65532:' >> /etc/group; \
    echo 'wakeboard:x:65532:65532:wakeboard:/app:/usr/sbin/nologin' >> /etc/passwd
ENV PATH=/opt/wakeboard/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /app
USER 65532:65532

# The installer has a venv of its own and fills /opt/wakeboard. Unchecked bytecode stays valid when a builder sets file
# times. compileall runs without -j, because several processes would write different bytes in each build.
FROM ${BASE} AS build
ARG PIP_NO_INDEX
ARG PIP_INDEX_URL
ENV PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_COMPILE=0 PIP_ROOT_USER_ACTION=ignore \
    UV_FIND_LINKS=/wheels UV_NO_CACHE=1 UV_LINK_MODE=copy \
    COMPILE="python3 -m compileall -q --invalidation-mode unchecked-hash"
COPY wheelhouse/ /wheels/
COPY locks/build.txt /locks/
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --quiet --require-hashes -r /locks/build.txt \
 && python3 -m venv --without-pip /opt/wakeboard
ENV PATH=/opt/wakeboard/bin:/opt/build/bin:$PATH PIP_PYTHON=/opt/wakeboard/bin/python VIRTUAL_ENV=/opt/wakeboard

# ---------------------------------------------------------------------------- other packages: change rarely

FROM build AS operator-packages
ARG PIP_NO_INDEX
ARG PIP_INDEX_URL
COPY locks/operator.txt /locks/
# The operator does not import the client's synchronous half. Without its bytecode the image is 20 MB smaller.
RUN pip install --quiet --require-hashes -r /locks/operator.txt \
 && $COMPILE -x '/kubernetes/client/(api/|models/v)' /opt/wakeboard/lib

FROM build AS worker-packages
ARG PIP_NO_INDEX
ARG PIP_INDEX_URL
COPY locks/worker.txt /locks/
RUN pip install --quiet --require-hashes -r /locks/worker.txt && $COMPILE /opt/wakeboard/lib

FROM build AS board-packages
ARG PIP_NO_INDEX
ARG PIP_INDEX_URL
COPY locks/board.txt /locks/
RUN pip install --quiet --require-hashes -r /locks/board.txt && $COMPILE /opt/wakeboard/lib

# ---------------------------------------------------------------------------- our packages: a separate layer

FROM build AS code
WORKDIR /source
COPY LICENSE NOTICE README.md pyproject.toml ./
COPY wakeboard/ wakeboard/
COPY operator/ operator/
COPY worker/ worker/
RUN hatchling build --target wheel --directory /dist \
 && pip install --quiet --no-index --no-deps --prefix /ours/opt/wakeboard /dist/*.whl \
 && $COMPILE -s /ours /ours

FROM code AS operator-code
RUN rm -r /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard_worker \
 && sed -i /^wakeboard_worker/d /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard-*.dist-info/RECORD

FROM code AS worker-code
RUN rm -r /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard_operator \
 && sed -i /^wakeboard_operator/d /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard-*.dist-info/RECORD

FROM code AS board-code
RUN rm -r /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard_operator \
        /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard_worker \
 && sed -i -e /^wakeboard_operator/d -e /^wakeboard_worker/d \
        /ours/opt/wakeboard/lib/python3*/site-packages/wakeboard-*.dist-info/RECORD

# ---------------------------------------------------------------------------- the images

FROM runtime AS operator
COPY --from=operator-packages /opt/wakeboard /opt/wakeboard
COPY --from=operator-code /ours/ /
COPY NOTICE sbom/operator.cdx.json /usr/share/doc/wakeboard/
ENTRYPOINT ["/opt/wakeboard/bin/python", "-m", "wakeboard_operator"]
ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wakeboard operator" \
      org.opencontainers.image.description="Syncs JobSchedules into Postgres and writes their status." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM runtime AS board
COPY --from=board-packages /opt/wakeboard /opt/wakeboard
COPY --from=board-code /ours/ /
COPY NOTICE sbom/board.cdx.json /usr/share/doc/wakeboard/
ENTRYPOINT ["/opt/wakeboard/bin/wakeboard", "board"]
ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wakeboard board" \
      org.opencontainers.image.description="Shows schedules and runs in a browser, and acts on them." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM worker-packages AS worker-build
COPY --from=worker-code /ours/ /
RUN pip freeze --exclude wakeboard > /locks/installed.txt
COPY NOTICE sbom/worker-build.cdx.json /usr/share/doc/wakeboard/
ENV PIP_CONSTRAINT=/locks/installed.txt UV_CONSTRAINT=/locks/installed.txt
WORKDIR /app
ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wakeboard worker-build" \
      org.opencontainers.image.description="The worker with an installer, to add packages in a first stage." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# For pools with `jobs`, which mount a token: the worker without the code of users.
FROM runtime AS jobs
COPY --from=worker-packages /opt/wakeboard /opt/wakeboard
COPY --from=worker-code /ours/ /
COPY NOTICE sbom/jobs.cdx.json /usr/share/doc/wakeboard/
ENTRYPOINT ["/opt/wakeboard/bin/python", "-m", "wakeboard_worker"]
ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wakeboard jobs" \
      org.opencontainers.image.description="Runs the CronJobs of a cluster as Kubernetes Jobs." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

FROM runtime AS worker
COPY --from=worker-packages /opt/wakeboard /opt/wakeboard
COPY --from=worker-code /ours/ /
COPY NOTICE sbom/worker.cdx.json /usr/share/doc/wakeboard/
ENV PYTHONPATH=/app
ENTRYPOINT ["/opt/wakeboard/bin/python", "-m", "wakeboard_worker"]
ARG BASE
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="wakeboard worker" \
      org.opencontainers.image.description="Claims due runs in Postgres and executes them." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
