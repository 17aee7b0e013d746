/** `npm run bench [-- name …]`: runs the named benchmarks, or says which there are. */
const benchmarks: Readonly<Record<string, () => Promise<unknown>>> = {
  ground: () => import("./ground.ts"),
  deadlines: () => import("./deadlines.ts"),
  egress: () => import("./egress.ts"),
  delivery: () => import("./delivery.ts"),
  stream: () => import("./stream.ts")
}

const names = process.argv.slice(2)
if (names.length === 0) names.push("ground")
for (const name of names) {
  const run = benchmarks[name]
  if (run === undefined) {
    console.error(`There is no benchmark named ${name}; there are: ${Object.keys(benchmarks).join(", ")}`)
    process.exit(1)
  }
  await run()
}
