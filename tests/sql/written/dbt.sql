-- # dbt

-- A chain from the source to the result
-- by: country
-- of: rows; sum amount
-- bounds: revenue = 0, 500
with source as (select * from "analytics"."raw"."sales"),
renamed as (select country, amount as revenue, ordered_at as order_date from source),
final as (select country, count(*) as orders, sum(revenue) as revenue from renamed group by country)
select * from final;

-- A CTE that is named like its table
-- by: category
-- of: rows
with sales as (select * from "analytics"."raw"."sales"),
final as (select category, count(*) as orders from sales group by 1)
select * from final;

-- Sales and a dimension as CTEs of their own
-- by: region
-- of: rows
-- from: sales LEFT JOIN stores USING (store_id)
with sales as (select * from "analytics"."main"."sales"),
stores as (select * from "analytics"."main"."stores"),
joined as (select sales.*, stores.region from sales left join stores on sales.store_id = stores.store_id),
final as (select region, count(*) as orders from joined group by region)
select * from final;

-- Sales joined with the dimension itself
-- by: region
-- of: rows; sum amount
-- from: sales LEFT JOIN stores USING (store_id)
with orders as (select * from "analytics"."main"."sales"),
joined as (select orders.*, stores.region from orders left join "analytics"."main"."stores" as stores on orders.store_id = stores.store_id),
final as (select region, count(*) as orders, sum(amount) as revenue from joined group by region)
select * from final;

-- A staging model with casts and CASE
-- by: order_month = date_trunc('month', CAST(ordered_at AS date)); is_large = amount > 100
-- of: rows
with source as (select * from sales),
staged as (select cast(ordered_at as date) as order_date, case when amount > 100 then true else false end as is_large from source)
select date_trunc('month', order_date) as order_month, is_large, count(*) as orders from staged group by 1, 2 order by 1, 2;

-- A filter in the middle
-- by: product
-- of: sum quantity
-- where: channel IS NOT NULL AND amount > 5
with source as (select product, quantity, channel, amount from sales where channel is not null),
filtered as (select * from source where amount > 5)
select product, sum(quantity) as items from filtered group by product order by items desc;

-- Metrics and their ratios in a last CTE
-- by: country
-- of: sum amount; rows; people
with metrics as (select country, sum(amount) as revenue, count(*) as orders, count(distinct customer_id) as customers from sales group by country)
select country, revenue, orders, customers, revenue / nullif(customers, 0) as revenue_per_customer, orders / nullif(customers, 0) as orders_per_customer from metrics order by country;

-- A share of the total
-- by: category
-- of: sum amount
with metrics as (select category, sum(amount) as revenue from sales group by 1),
total as (select sum(revenue) as revenue from metrics)
select metrics.category, metrics.revenue / total.revenue as share from metrics cross join total order by share desc;

-- A rank
-- differs by user: noise of small groups moves it
-- by: country; product
-- of: sum amount
with metrics as (select country, product, sum(amount) as revenue from sales group by 1, 2),
ranked as (select *, row_number() over (partition by country order by revenue desc) as place from metrics)
select country, product, place from ranked where place <= 2 order by country, place;

-- A metric of the semantic layer
-- by: metric_time__month = date_trunc('month', ordered_at); sale__country = country
-- of: sum amount
-- bounds: revenue = 0, 500
SELECT metric_time__month, sale__country, SUM(revenue) AS revenue FROM (SELECT DATE_TRUNC('month', sales_src_1.ordered_at) AS metric_time__month, sales_src_1.country AS sale__country, sales_src_1.amount AS revenue FROM "analytics"."main"."sales" sales_src_1) subq_2 GROUP BY metric_time__month, sale__country;

-- Rows of one month, and of the month before it
-- by: order_month = date_trunc('month', ordered_at)
-- of: sum amount
with monthly as (select date_trunc('month', ordered_at) as order_month, sum(amount) as revenue from sales group by 1)
select this.order_month, this.revenue, last.revenue as revenue_before from monthly as this join monthly as last on last.order_month = this.order_month - interval 1 month order by 1;

-- A pivot by a macro
-- by: country
-- of: sum CASE WHEN channel = 'web' THEN amount ELSE 0 END; sum CASE WHEN channel = 'store' THEN amount ELSE 0 END
-- bounds: CASE WHEN channel = 'web' THEN amount ELSE 0 END = 0, 500
-- bounds: CASE WHEN channel = 'store' THEN amount ELSE 0 END = 0, 500
select country, sum(case when channel = 'web' then amount else 0 end) as "web", sum(case when channel = 'store' then amount else 0 end) as "store" from "analytics"."main"."sales" group by country;

-- A dimension that is prepared on the way
-- of: rows; people
-- from: sales JOIN stores USING (store_id)
-- by: part = upper(region)
-- where: square_metres >= 300
with stores as (select store_id as id, upper(region) as part from "analytics"."main"."stores" where square_metres >= 300 order by id),
joined as (select stores.*, sales.customer_id, sales.amount from "analytics"."main"."sales" join stores on sales.store_id = stores.id)
select part, count(*) as orders, count(distinct customer_id) as customers from joined group by part;

-- A dimension of the newest rows alone
-- refused: newest (line 2, column 58): name a public table here. Prepare it before you ask.
with newest as (select store_id, region from stores order by opened_on desc limit 1)
select newest.region, count(*) as orders from sales join newest on sales.store_id = newest.store_id group by 1;

-- A test of uniqueness
-- by: customer_id
-- of: rows
-- differs: groups of few records are missing
-- refused by user: customer_id (line 1, column 164): a group of one user is never shown. Ask count(DISTINCT customer_id).
select count(*) as failures from (select customer_id as unique_field, count(*) as n_records from "analytics"."main"."sales" where customer_id is not null group by customer_id having count(*) > 1) dbt_internal_test;

-- A test of accepted values
-- by: value_field = channel
-- of: rows
with all_values as (select channel as value_field, count(*) as n_records from "analytics"."main"."sales" group by channel)
select * from all_values where value_field not in ('web', 'store');

-- A test of missing values
-- of: rows
-- where: channel IS NULL
select count(*) as failures from (select channel from "analytics"."main"."sales" where channel is null) dbt_internal_test;

-- A last row for each customer, without repeated ones
-- refused: row_number() over (partition by custo... (line 1, column 29): a window over private rows is not read. Put windows over the grouped result.
with numbered as (select *, row_number() over (partition by customer_id order by ordered_at desc) as n from sales)
select country, count(*) as customers from numbered where n = 1 group by country;

-- Two sources in one
-- refused: * (line 2, column 25): UNION of private rows is not read. Ask one grouped SELECT, and go on with its rows.
with web as (select * from sales where channel = 'web'), store as (select * from sales where channel = 'store'),
both_of_them as (select * from web union all select * from store)
select country, count(*) from both_of_them group by 1;
