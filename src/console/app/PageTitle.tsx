/** The title of the tab: what tells it from other tabs of the console. */
import { Atom } from "effect/reactivity"
import { useEffect } from "react"
import { registry, useAtomValue } from "../state/atoms.ts"
import { pendingCountAtom } from "../state/inboxStream.ts"
import { plainLine } from "../ui/plainLine.ts"
import { describeCount } from "./PendingCount.tsx"

/** The most characters of one part of a title. A tab shows fewer. */
const MAX_PART_LENGTH = 60

/** The parts that the open page adds, most specific first. */
const titlePartsAtom = Atom.keepAlive(Atom.make<ReadonlyArray<string>>([]))

/**
 * Puts the record of a page before its title, such as `usePageTitle(tool, ticket)` for "payments.refund · SUP-9001 · Approvals". Absent and
 * blank parts are left out. Texts of agents are allowed: hidden characters are shown as code points.
 */
export const usePageTitle = (...parts: ReadonlyArray<string | undefined>): void => {
  const given = parts.flatMap((part) =>
    part === undefined || part.trim() === "" ? [] : [plainLine(part, MAX_PART_LENGTH)]
  )
  const key = given.join("\n")
  useEffect(() => {
    const current = key === "" ? [] : key.split("\n")
    registry.set(titlePartsAtom, current)
    return () => {
      if (registry.get(titlePartsAtom) === current) registry.set(titlePartsAtom, [])
    }
  }, [key])
}

/** `usePageTitle` as an element, for pages that render a record that may still be loading. */
export const PageTitle = ({ parts }: { readonly parts: ReadonlyArray<string | undefined> }) => {
  usePageTitle(...parts)
  return null
}

/** The `title` element, with the number of approvals that the key can approve. `page`: the title of the open page; undefined for an unknown path. */
export const DocumentTitle = ({ page }: { readonly page: string | undefined }) => {
  const parts = useAtomValue(titlePartsAtom)
  const count = describeCount(useAtomValue(pendingCountAtom))
  // A record tells the tab apart; the name of its page would only push it out of the tab.
  const named = parts.length > 1 || page === undefined ? parts : [...parts, page]
  const title = [...named, "Countersign"].join(" · ")
  return <title>{count === "" ? title : `(${count}) ${title}`}</title>
}
