# The image of all services. `make image` makes the same one without a container engine, by the same tools/image.
ARG PYTHON=docker.io/library/python:3.11-slim-bookworm
FROM ${PYTHON} AS build
WORKDIR /src
# The build's own tools, by their hashes too.
COPY requirements.lock requirements-runtime.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock && pip install --no-cache-dir uv==0.13.7
COPY . .
# Locked wheels, ours, byte code and kernels compiled ahead: the whole root, with nothing else below it.
RUN PYTHONPATH=src python -m tools.image.build --files /image

FROM scratch
COPY --from=build /image /
ENV PATH=/opt/muster/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CPU_NAME=generic \
    NUMBA_CACHE_DIR=/tmp/numba \
    MUSTER_KERNELS=/opt/muster/kernels
USER 65532:65532
ENTRYPOINT ["muster"]
