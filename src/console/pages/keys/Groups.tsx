/** The groups of a key or a person, under their preset. */
export const Groups = ({ names }: { readonly names: ReadonlyArray<string> }) =>
  names.length === 0 ? null : (
    <div className="quiet small">
      {names.length === 1 ? "group" : "groups"} {names.join(", ")}
    </div>
  )
