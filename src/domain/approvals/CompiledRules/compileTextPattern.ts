/**
 * Compiles a pattern in which `*` matches any number of characters. The test searches each literal part once, from left to right, so the
 * cost is at most proportional to pattern length times text length.
 */
export const compileTextPattern = (pattern: string): ((text: string) => boolean) => {
  if (pattern === "*") return () => true
  const [head = "", ...rest] = pattern.split("*")
  const tail = rest.pop()
  if (tail === undefined) return (text) => pattern === text
  return (text) => {
    if (text.length < head.length + tail.length || !text.startsWith(head) || !text.endsWith(tail))
      return false
    const end = text.length - tail.length
    let from = head.length
    for (const part of rest) {
      const found = text.indexOf(part, from)
      if (found === -1 || found + part.length > end) return false
      from = found + part.length
    }
    return true
  }
}
