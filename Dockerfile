# vestige as a command, for a user without privileges, with its kernels compiled in: docs/guides/install.md says how to use it.
FROM python:3.12-slim

ARG EXTRAS=cli,duckdb,sign,sketches

RUN useradd --create-home --uid 10001 vestige \
    && install --directory --owner=vestige /data /var/cache/vestige

COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN python -m pip install --no-cache-dir "/build[$EXTRAS]" && rm -r /build

USER vestige
# Kernels for any processor of this kind, since an image may run on another machine than the one that built it.
ENV NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=/var/cache/vestige
RUN vestige warm

WORKDIR /data
ENTRYPOINT ["vestige"]
CMD ["--help"]
