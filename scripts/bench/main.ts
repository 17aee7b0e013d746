/**
 * Runs benchmarks: `npm run bench [-- [--record] NAME [PART …] …]`. Without a name, runs `ground`; `all` runs every one and records it. A
 * word after a name that is not a benchmark itself is a part of it (`delivery compare fairness`).
 *
 * Each benchmark runs in a process of its own. The exit code is 1 if one of them misses a goal or fails. `--record` writes the output
 * to `scripts/bench/RESULTS.md`, in place of the last one, with the date, the commit and the machine, so that a number quoted elsewhere can
 * be traced. A table at the top of it has the goals of all sections.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { machine } from "./measure.ts"

const benchmarks: Readonly<Record<string, (parts: ReadonlyArray<string>) => Promise<unknown>>> = {
  adapters: () => import("./adapters.ts"),
  ground: () => import("./ground.ts"),
  deadlines: () => import("./deadlines.ts"),
  egress: () => import("./egress.ts"),
  guard: () => import("./guard.ts"),
  feedback: () => import("./feedback.ts"),
  steps: async (parts) => (await import("./steps.ts")).run(parts),
  accept: async (parts) => (await import("./accept.ts")).run(parts),
  delivery: async (parts) => (await import("./delivery.ts")).run(parts),
  datasets: () => import("./datasets.ts"),
  retrieval: async (parts) => (await import("./retrieval.ts")).run(parts),
  telemetry: async (parts) => (await import("./telemetry.ts")).run(parts),
  flood: async (parts) => (await import("./flood.ts")).run(parts),
  stream: async (parts) => (await import("./stream.ts")).run(parts),
  console: () => import("./console.ts"),
  image: () => import("./image.ts"),
  ready: () => import("./ready.ts"),
  replicas: async (parts) => (await import("./replicas.ts")).run(parts),
  rest: () => import("./rest.ts"),
  reviewers: () => import("./reviewers.ts"),
  waits: () => import("./waits.ts"),
  rules: () => import("./rules.ts"),
  overview: () => import("./overview.ts"),
  "request-log": () => import("./requestLog.ts")
}

const results = fileURLToPath(new URL("RESULTS.md", import.meta.url))

/** The benchmarks named on the command line, each with its parts. */
const parseNames = (words: ReadonlyArray<string>) => {
  const named: Array<{ readonly name: string; readonly parts: Array<string> }> = []
  for (const word of words.length === 0 ? ["ground"] : words) {
    if (word === "all") named.push(...Object.keys(benchmarks).map((name) => ({ name, parts: [] })))
    else if (Object.hasOwn(benchmarks, word)) named.push({ name: word, parts: [] })
    else if (named.length > 0) named.at(-1)?.parts.push(word)
    else {
      console.error(`Unknown benchmark ${word}. Available: all, ${Object.keys(benchmarks).join(", ")}`)
      process.exit(2)
    }
  }
  return named
}

/** Runs one benchmark in a child process, shows its output as it comes, and returns it with the exit code. */
const runInChild = async (name: string, parts: ReadonlyArray<string>) => {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), "--in-process", name, ...parts], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const chunks: Array<string> = []
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    chunks.push(chunk)
    process.stdout.write(chunk)
  })
  const [status] = await once(child, "close")
  return { output: chunks.join(""), succeeded: status === 0 }
}

const git = (...args: ReadonlyArray<string>): string => execFileSync("git", args, { encoding: "utf8" }).trim()

/** One section of `RESULTS.md`. */
const section = (title: string, output: string): string => {
  const changed =
    git("status", "--porcelain", "--", "src", "scripts", ":!scripts/bench/RESULTS.md") === ""
      ? ""
      : " with local changes"
  const date = new Date().toISOString().slice(0, 10)
  return `\n## ${title}, ${date}\n\nCommit ${git("rev-parse", "--short", "HEAD")}${changed}. ${machine()}.\n\n\`\`\`text\n${output.trim()}\n\`\`\`\n`
}

/** A line of `line`, `atMost` or `atLeast`: indentation, figure, median, unit, spread, and the goal and its verdict if there are any. */
const FIGURE =
  /^( *)(\S.*?) +([\d.]+|NaN) (\S*) +\((.*? to .*?)\)(?: +(at (?:most|least) \S+): (holds|MISSED))?$/u

/** Units of the goals that older sections have, and that say more of their machine than of the program. */
const TIMES = new Set(["ms", "µs", "req/s"])

/**
 * The rows of the table for the goals of a section. A line that is no figure is the title of those below it, and a figure names the indented
 * ones below it.
 */
const goalsOf = (text: string): ReadonlyArray<string> => {
  const benchmark = /^\n## (.*), /.exec(text)?.[1] ?? ""
  let title = ""
  let parent = ""
  return text.split("\n").flatMap((one) => {
    const [, indent, figure, median, unit = "", spread, goal, verdict] = FIGURE.exec(one) ?? []
    if (figure === undefined) {
      if (/^[A-Z](?!.* {2})/.test(one) && !one.startsWith("Commit ")) [title, parent] = [one.trim(), ""]
      return []
    }
    const names = [title, indent === "" ? "" : parent, figure].filter((name) => name !== "")
    if (indent === "") parent = figure
    if (goal === undefined || TIMES.has(unit)) return []
    return [`| ${benchmark}: ${names.join(", ")} | ${median} ${unit} (${spread}) | ${goal} | ${verdict} |`]
  })
}

/** Writes a section in place of the one that has its title and of those of its parts, and the table of goals. */
const record = (title: string, output: string): void => {
  const replaced = [`\n## ${title}, `, `\n## ${title} `, GOALS]
  const [head = "", ...sections] = readFileSync(results, "utf8")
    .split(/(?=\n## )/)
    .filter((one) => !replaced.some((start) => one.startsWith(start)))
  const recorded = [...sections, section(title, output)]
  const table = [
    "| Figure | Median (lowest to highest) | Goal | |",
    "| --- | --- | --- | --- |",
    ...recorded.flatMap(goalsOf)
  ]
  writeFileSync(results, [head, `${GOALS}\n${table.join("\n")}\n`, ...recorded].join(""))
}

const GOALS = "\n## Goals\n"

const words = process.argv.slice(2)
if (words[0] === "--in-process") {
  const [, name = "", ...parts] = words
  await benchmarks[name]?.(parts)
} else {
  const isRecorded = words.includes("--record") || words.includes("all")
  for (const { name, parts } of parseNames(words.filter((word) => word !== "--record"))) {
    const { output, succeeded } = await runInChild(name, parts)
    if (!succeeded) process.exitCode = 1
    if (isRecorded) record([name, ...parts].join(" "), output)
  }
}
