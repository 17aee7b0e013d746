/**
 * `npm run bench [-- name [part …] …]`: runs the named benchmarks, or says which there are. What follows a name and is none itself is a
 * part of it.
 */
const benchmarks: Readonly<Record<string, (parts: ReadonlyArray<string>) => Promise<unknown>>> = {
  ground: () => import("./ground.ts"),
  deadlines: () => import("./deadlines.ts"),
  egress: () => import("./egress.ts"),
  guard: () => import("./guard.ts"),
  feedback: () => import("./feedback.ts"),
  delivery: async (parts) => (await import("./delivery.ts")).run(parts),
  datasets: () => import("./datasets.ts"),
  telemetry: async (parts) => (await import("./telemetry.ts")).run(parts),
  stream: () => import("./stream.ts"),
  console: () => import("./console.ts")
}

const [first = "ground", ...rest] = process.argv.slice(2)
const wanted: Array<{ readonly name: string; readonly parts: Array<string> }> = [{ name: first, parts: [] }]
for (const word of rest) {
  if (Object.hasOwn(benchmarks, word)) wanted.push({ name: word, parts: [] })
  else wanted.at(-1)?.parts.push(word)
}
for (const { name, parts } of wanted) {
  const run = benchmarks[name]
  if (run === undefined) {
    console.error(`There is no benchmark named ${name}; there are: ${Object.keys(benchmarks).join(", ")}`)
    process.exit(1)
  }
  await run(parts)
}
