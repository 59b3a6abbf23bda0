# The command in an image of its own, without a shell, as nobody: docker build -t goodput .
#
# Built against glibc and not as a static musl binary: musl's allocator is slow where many threads free memory, and a slow client spoils
# the times that it measures.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY crates crates
COPY docs docs
COPY slo-profiles slo-profiles
COPY src src
COPY sweeps sweeps
RUN cargo build --release --locked --bin goodput

FROM gcr.io/distroless/cc-debian12:nonroot
LABEL org.opencontainers.image.title="goodput" \
      org.opencontainers.image.description="How many requests per second an LLM server takes while it keeps its SLO" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=build /src/target/release/goodput /usr/local/bin/goodput
# Run folders go to ./runs: mount a volume here that this user may write.
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/goodput"]
CMD ["--help"]
