# docker build -t kartrl . && docker run -p 6006:6006 -p 6007:6007 kartrl         (docs/docker.md tells the rest)
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

# tini is PID 1: it hands signals on and reaps orphans.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --uid 1000 --user-group --create-home kartrl \
    && install -d -o kartrl -g kartrl /logs \
    && install -d /data \
    && python3 -m venv /opt/kartrl
ENV PATH=/opt/kartrl/bin:$PATH

# The libraries have a layer of their own, which only a new lock makes anew. PyTorch is the build for CUDA unless
# TORCH_INDEX names an index that has a smaller one.
ARG TORCH_INDEX=
COPY requirements.lock /opt/kartrl/
RUN pip install --no-cache-dir --disable-pip-version-check ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r /opt/kartrl/requirements.lock

WORKDIR /app
COPY . .
RUN pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --editable . \
    && python -m compileall -q kartrl

# A cartridge's own files are looked for in /data; caches go where a read-only root allows them.
ENV KARTRL_LOGS=/logs KARTRL_DATA=/data MPLCONFIGDIR=/tmp/matplotlib PYTHONUNBUFFERED=1
VOLUME /logs
EXPOSE 6006 6007
USER 1000:1000
ENTRYPOINT ["tini", "--", "/app/docker/start"]
