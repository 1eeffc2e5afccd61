// Runs when the site is built, and writes the rows of two published Parquet files as JSON.
import {asyncBufferFromFile, parquetReadObjects} from "hyparquet";

const read = async (name, columns) =>
  parquetReadObjects({file: await asyncBufferFromFile(`results_parquet/${name}.parquet`), columns});
const number = (_, value) => (typeof value === "bigint" ? Number(value) : value); // JSON knows no BigInt

const rows = await read("revenue_all");
const releases = await read("dp_releases", ["release", "is_latest", "confidence", "guarantee"]);
process.stdout.write(JSON.stringify({rows, releases}, number));
