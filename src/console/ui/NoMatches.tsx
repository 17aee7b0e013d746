import { EmptyState } from "./EmptyState.tsx"

/** The content of a list of which no record matches the search. `hasMore`: the search has not examined all records yet. */
export const NoMatches = ({ hasMore, title }: { readonly title: string; readonly hasMore: boolean }) =>
  hasMore ? (
    <EmptyState title="No matches so far">Load more to search further.</EmptyState>
  ) : (
    <EmptyState title={title}>
      Every word must occur in one record. Change the search to see others.
    </EmptyState>
  )
