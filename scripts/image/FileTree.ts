/** A file of an image, as a tar archive has it. */
export type FileEntry = { readonly mode: number; readonly owner?: number } & (
  | { readonly kind: "directory" }
  | { readonly kind: "file"; readonly content: Uint8Array }
  | { readonly kind: "symlink"; readonly target: string }
)

/** Files by their path from the root, without a leading slash. */
export type FileTree = ReadonlyMap<string, FileEntry>

/** A file that everyone may read. */
export const file = (content: Uint8Array | string): FileEntry => ({
  kind: "file",
  mode: 0o644,
  content: typeof content === "string" ? Buffer.from(content) : content
})

/** A file that everyone may read and execute. */
export const executable = (content: Uint8Array): FileEntry => ({ kind: "file", mode: 0o755, content })

export const symlink = (target: string): FileEntry => ({ kind: "symlink", mode: 0o777, target })

/** A directory, of `owner` (user and group ID) or root. */
export const directory = (mode: number, owner = 0): FileEntry => ({ kind: "directory", mode, owner })

/** Paths of a tree with the directories that contain them, sorted by code unit: a directory precedes its files. */
export const withParents = (tree: FileTree): FileTree => {
  const all = new Map(tree)
  for (const path of tree.keys()) {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1)) {
      const parent = path.slice(0, end)
      if (!all.has(parent)) all.set(parent, directory(0o755))
    }
  }
  return new Map([...all].toSorted(([left], [right]) => (left < right ? -1 : 1)))
}
