import { type SearchGroup, SearchKind, type SearchResult } from "../../../api/console/Search.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link, withQuery } from "../../app/router.tsx"
import { defineQuery, QueryText } from "../../state/queryState.ts"
import { detailText, foundAtom, foundOfKindAtom, searchKinds } from "../../state/search.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { PagedList } from "../../ui/PagedList.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { SearchField } from "../../ui/SearchField.tsx"
import { RelativeTime } from "../../ui/Time.tsx"
import { Toolbar } from "../../ui/Toolbar.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useQueryState } from "../../ui/useQueryState.ts"

const parameters = defineQuery({ text: QueryText, kind: SearchKind })

/** The search page: the first results of each kind, or all of one kind. */
export default function SearchPage() {
  const [{ kind, text = "" }, setQuery] = useQueryState(parameters)
  usePageTitle(text)
  return (
    <>
      <PageHeader title="Search">
        By ID, trace ID or words of tools, arguments, metadata, tasks, endpoints and keys.
      </PageHeader>
      <Toolbar label="Search">
        <SearchField
          label="Search"
          text={text}
          onSearch={(typed) => setQuery({ text: typed === "" ? undefined : typed }, { replace: true })}
        />
        {kind === undefined ? null : (
          <Button small onClick={() => setQuery({ kind: undefined })}>
            Only {searchKinds[kind][1]} <span aria-hidden="true">×</span>
            <span className="visually-hidden"> (remove)</span>
          </Button>
        )}
      </Toolbar>
      {text.trim() === "" ? (
        <EmptyState title="Nothing to search for yet">
          Try a ticket number of a session, a word of a tool&apos;s arguments, or the start of an ID.
        </EmptyState>
      ) : kind === undefined ? (
        <AllKinds text={text} />
      ) : (
        <OneKind text={text} kind={kind} />
      )}
    </>
  )
}

const AllKinds = ({ text }: { readonly text: string }) => {
  const atom = foundAtom(text)
  return (
    <AsyncContent atom={atom}>
      {({ groups, incomplete }) => (
        <div className="stack">
          <p role="status" className={incomplete ? "quiet" : "visually-hidden"}>
            {incomplete
              ? "Older records are still being indexed. Search again in a moment to include them."
              : `${groups.reduce((sum, { results }) => sum + results.length, 0)} results`}
          </p>
          {groups.length === 0 ? <NothingFound /> : null}
          {groups.map((group) => (
            <Group key={group.kind} group={group} text={text} />
          ))}
        </div>
      )}
    </AsyncContent>
  )
}

const Group = ({
  group: { kind, next_cursor, results },
  text
}: {
  readonly group: SearchGroup
  readonly text: string
}) => (
  <section className="stack" aria-label={searchKinds[kind][1]}>
    <h2>{searchKinds[kind][1]}</h2>
    <Results results={results} />
    {next_cursor === null ? null : (
      <p>
        <Link to={withQuery("/search", { text, kind })}>More {searchKinds[kind][1]}</Link>
      </p>
    )}
  </section>
)

const OneKind = ({ kind, text }: { readonly kind: SearchKind; readonly text: string }) => (
  <PagedList atom={foundOfKindAtom({ kind, text })}>
    {(results) => (results.length === 0 ? <NothingFound /> : <Results results={results} />)}
  </PagedList>
)

const NothingFound = () => (
  <EmptyState title="No matches">
    Every word must occur in one record. Words match from their start; steps that were allowed without a
    person are not searched.
  </EmptyState>
)

const Results = ({ results }: { readonly results: ReadonlyArray<SearchResult> }) => (
  <ul className="card found">
    {results.map((result) => (
      <li key={result.id}>
        <Link to={result.page} className="found-row">
          <span className="found-title">
            <UntrustedText text={result.title} />
          </span>
          <span className="found-detail">
            {result.detail === "" ? (
              <span className="id">{result.id}</span>
            ) : (
              <UntrustedText text={detailText(result.detail)} />
            )}
          </span>
          {result.status === "" ? null : <Badge tone="quiet">{result.status}</Badge>}
          {result.created_at === null ? null : (
            <span className="quiet small">
              <RelativeTime time={result.created_at} />
            </span>
          )}
        </Link>
      </li>
    ))}
  </ul>
)
