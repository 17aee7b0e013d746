/** Reads the project's Markdown: which documents there are, and their code blocks, headings and links. */
import { readdirSync, readFileSync } from "node:fs"
import path from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** A fenced code block. */
export interface CodeBlock {
  /** Path of the document, relative to the repository. */
  readonly document: string
  /** Line of the opening fence, counted from 1. */
  readonly line: number
  readonly language: string
  readonly code: string
  /** Text of the HTML comment directly above the block, which tells the checks how to treat it. */
  readonly directive: string | undefined
  /** Whether only blank lines separate this block from the code block before it. */
  readonly followsBlock: boolean
}

/** Folders whose Markdown is checked, in the order in which a reader meets it; files of a folder by name. */
const folders = ["", "docs", "docs/architecture", "docs/adapters", "examples"]

/** Documents that are run first, because others depend on their setup. */
const first = ["README.md", "docs/README.md", "docs/webhooks.md"]

const rank = (document: string): number => {
  const index = first.indexOf(document)
  return index === -1 ? first.length : index
}

/** Every document, as a path relative to the repository. */
export const documents = (): ReadonlyArray<string> =>
  folders
    .flatMap((folder) =>
      readdirSync(path.join(root, folder), { withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name.endsWith(".md"))
        .map((entry) => path.posix.join(folder, entry.name))
        .toSorted()
    )
    .toSorted((left, right) => rank(left) - rank(right))

export const readDocument = (document: string): string => readFileSync(path.join(root, document), "utf8")

const FENCE = /^ *(```+)(\w*)/

/** The code blocks of one document, in order. */
export const codeBlocks = (document: string): ReadonlyArray<CodeBlock> => {
  const lines = readDocument(document).split("\n")
  const blocks: Array<CodeBlock> = []
  let end = -1
  for (let at = 0; at < lines.length; at++) {
    const [, fence, language = ""] = FENCE.exec(lines[at] ?? "") ?? []
    if (fence === undefined) continue
    const start = at
    do at++
    while (at < lines.length && !(lines[at] ?? "").trim().startsWith(fence))
    const between = lines.slice(end + 1, start).join("\n")
    blocks.push({
      document,
      line: start + 1,
      language,
      code: lines.slice(start + 1, at).join("\n"),
      directive: /<!-- ([^>]*?) -->\s*$/.exec(between)?.[1],
      followsBlock: end !== -1 && between.trim() === ""
    })
    end = at
  }
  return blocks
}

/** A document's text with the contents of code blocks blanked, so that line numbers stay as they are. */
export const proseOf = (document: string): string => {
  let inside = false
  return readDocument(document)
    .split("\n")
    .map((line) => {
      const isFence = FENCE.test(line)
      if (isFence) inside = !inside
      return isFence || inside ? "" : line
    })
    .join("\n")
}

/** The anchors that GitHub gives to a document's headings. */
export const anchors = (document: string): ReadonlySet<string> => {
  const found = new Set<string>()
  for (const [, heading = ""] of proseOf(document).matchAll(/^#{1,6} +(.*)$/gm)) {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-")
    let unique = slug
    for (let count = 1; found.has(unique); count++) unique = `${slug}-${count}`
    found.add(unique)
  }
  return found
}

/** Prints each fault and the summary; the process fails if there are faults. */
export const report = (faults: ReadonlyArray<string>, summary: string): void => {
  for (const fault of faults) console.error(fault)
  console.log(summary)
  if (faults.length > 0) process.exitCode = 1
}
