#!/usr/local/bin/node
/**
 * The `countersign` command of the image, whose main process it also starts. The kernel delivers no signal to the first process of a
 * container that has no handler for it: until the service has installed its own, SIGTERM and SIGINT end the process here.
 */
const signals = { SIGINT: 130, SIGTERM: 143 }
for (const [signal, code] of Object.entries(signals)) {
  const end = () => process.exit(code)
  process.on(signal, end)
  process.on("newListener", (name, listener) => {
    // Not at once: if it were the last listener, Node.js would no longer receive the signal.
    if (name === signal && listener !== end) queueMicrotask(() => process.off(signal, end))
  })
}

const { COUNTERSIGN_POSTGRES_BIN, DATABASE_URL } = process.env
if (["serve", "migrate"].includes(process.argv[2]) && !DATABASE_URL && !COUNTERSIGN_POSTGRES_BIN) {
  process.stderr.write(
    "countersign: DATABASE_URL is unset, and this image has no PostgreSQL: set it to the connection URL of PostgreSQL 15 or newer, " +
      "or use the image whose tag ends in -full\n"
  )
  process.exit(1)
}

await import("./main.js")
