// A table as a file of its own.

/** @param {any[]} items @param {string} name */
export function save(items, name) {
  const fields = Object.keys(items[0] ?? { name: "" });
  const cell = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
  const text = [fields.join(","), ...items.map((one) => fields.map((field) => cell(one[field])).join(","))].join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = `${name}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}
