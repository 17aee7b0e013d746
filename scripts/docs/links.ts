/**
 * Checks the references of all documents: each relative link leads to a file, each anchor to a heading, and each path of the
 * repository that stands in backquotes exists. Links to other hosts are not followed.
 */
import { existsSync } from "node:fs"
import path from "node:path"
import { anchors, documents, proseOf, report, root } from "./markdown.ts"

/** Files that a checkout does not have until something builds them. */
const BUILT = /^(dist|\.console)\b/

/** A path below one of the repository's folders, or one of its files at the root. */
const REPOSITORY_PATH =
  /^(?:(?:src|test|scripts|bench|docs|examples|nix|\.ci)\/[\w./-]*|[\w.-]+\.(?:md|json|sql|nix))$/

const exists = (file: string): boolean =>
  ["", ".ts", ".tsx", ".test.ts"].some((extension) => existsSync(path.join(root, `${file}${extension}`)))

const linkFault = (document: string, target: string): string | undefined => {
  const [file = "", anchor] = target.split("#")
  const linked = file === "" ? document : path.posix.join(path.posix.dirname(document), file)
  if (!existsSync(path.join(root, linked))) return `${target}: no such file`
  if (anchor === undefined) return undefined
  return anchors(linked).has(anchor) ? undefined : `${target}: no such heading`
}

const faults: Array<string> = []
let count = 0
for (const document of documents()) {
  for (const [index, line] of proseOf(document).split("\n").entries()) {
    const check = (fault: string | undefined) => {
      count++
      if (fault !== undefined) faults.push(`${document}:${index + 1}: ${fault}`)
    }
    for (const [, target = ""] of line.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (!/^[a-z]+:/.test(target)) check(linkFault(document, target))
    }
    for (const [, text = ""] of line.matchAll(/`([^`\s]+)`/g)) {
      if (!REPOSITORY_PATH.test(text) || BUILT.test(text)) continue
      check(exists(text) ? undefined : `\`${text}\`: no such file`)
    }
  }
}
report(faults, `${count} references`)
