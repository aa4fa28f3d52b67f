// thalweg.hpp: Thalweg from C++17, one header over thalweg.h. Defines no macro except the include guard.
//
//   thalweg::Session session("heat.xml", MPI_COMM_WORLD);
//   auto output = session.open("heat", "heat.bp", thalweg::Mode::write);
//   output.write("nx", nx);
//   output.write("T", plate);                       // std::vector, std::array, std::span, {pointer, size}, mdspan
//   output.close();                                 // commits; collective
//
//   thalweg::Reader file("heat.bp");
//   auto T = file.read<double>("T", thalweg::last, thalweg::box({0, 0}, {24, 32}));
//
// Every failure throws thalweg::Error with kind, rank, place and the data that are still safe. Destructors never throw and
// never wait for another rank: an Output that was not closed is dropped, with one line on standard error. Guide:
// docs/guide/cpp.md.
#ifndef THALWEG_HPP
#define THALWEG_HPP

#include <thalweg.h>

#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

namespace thalweg {

/// A step, from 0; for readers a negative step counts from the end of a variable's steps.
using Step = std::int64_t;
inline constexpr Step last = -1;

// ---- Errors ----

/// Kind of a failure.
enum class Kind {
    io = THALWEG_IO,
    not_found = THALWEG_NOT_FOUND,
    already_exists = THALWEG_ALREADY_EXISTS,
    permission_denied = THALWEG_PERMISSION_DENIED,
    no_space = THALWEG_NO_SPACE,
    no_memory = THALWEG_NO_MEMORY,
    corrupt = THALWEG_CORRUPT,
    torn = THALWEG_TORN,
    out_of_bounds = THALWEG_OUT_OF_BOUNDS,
    unsupported = THALWEG_UNSUPPORTED,
    config = THALWEG_CONFIG,
    invalid_argument = THALWEG_INVALID_ARGUMENT,
    peer_lost = THALWEG_PEER_LOST,
    timeout = THALWEG_TIMEOUT,
    not_ready = THALWEG_NOT_READY,
    end_of_stream = THALWEG_END_OF_STREAM
};

/// Place of a failure; unknown fields are empty.
struct Place {
    std::optional<int> rank;
    std::optional<std::string> group;
    std::optional<Step> step;
    std::optional<std::string> variable;
    std::optional<std::string> object; ///< file or subfile
    std::optional<std::uint64_t> byte; ///< in that object
};

/// A failure. what() returns the full message; the other functions return its parts.
class Error : public std::exception {
public:
    /// The last failure of this thread.
    explicit Error(const thalweg_error& e)
        : facts_(std::make_shared<const Facts>(Facts{static_cast<Kind>(e.status), e.text, e.what, place_of(e), optional(e.safe),
                                                     e.reported_by < 0 ? std::nullopt : std::optional<int>(static_cast<int>(e.reported_by))}))
    {
    }

    const char* what() const noexcept override { return facts_->text.c_str(); }
    Kind kind() const noexcept { return facts_->kind; }
    const Place& place() const noexcept { return facts_->place; }
    /// Operation and cause, without the place.
    const std::string& reason() const noexcept { return facts_->what; }
    /// Data that are still intact, if known.
    const std::optional<std::string>& still_safe() const noexcept { return facts_->safe; }
    /// The rank that failed, if not this one.
    std::optional<int> reported_by() const noexcept { return facts_->reported_by; }

private:
    struct Facts {
        Kind kind;
        std::string text, what;
        Place place;
        std::optional<std::string> safe;
        std::optional<int> reported_by;
    };
    std::shared_ptr<const Facts> facts_; // exceptions are copied, and copies must not throw

    static std::optional<std::string> optional(const char* text) { return text ? std::optional<std::string>(text) : std::nullopt; }
    static Place place_of(const thalweg_error& e)
    {
        Place place;
        if (e.rank >= 0) place.rank = static_cast<int>(e.rank);
        if (e.step >= 0) place.step = e.step;
        if (e.byte >= 0) place.byte = static_cast<std::uint64_t>(e.byte);
        place.group = optional(e.group);
        place.variable = optional(e.variable);
        place.object = optional(e.object);
        return place;
    }
};

namespace detail {

inline void check(int status)
{
    if (status != THALWEG_OK) throw Error(*thalweg_last_error());
}

[[noreturn]] inline void refuse(const std::string& what, const std::string& variable = {})
{
    thalweg_error e{};
    const std::string text = variable.empty() ? what : what + " (\"" + variable + "\")";
    e.status = THALWEG_INVALID_ARGUMENT;
    e.text = text.c_str();
    e.what = what.c_str();
    e.rank = e.step = e.byte = e.reported_by = -1;
    e.variable = variable.empty() ? nullptr : variable.c_str();
    throw Error(e);
}

template <class T, class = void>
struct has_data : std::false_type {};
template <class T>
struct has_data<T, std::void_t<decltype(std::declval<T&>().data()), decltype(std::declval<T&>().size())>> : std::true_type {};

} // namespace detail

// ---- Element types ----

/// The element type of a C++ type: integers by size and sign, float, double, long double, std::complex of float and double,
/// std::string for texts.
template <class T, class = void>
struct element; // not defined: a type that files do not have

template <class T>
struct element<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8>> {
    static constexpr thalweg_type value = sizeof(T) == 1   ? (std::is_signed_v<T> ? THALWEG_INT8 : THALWEG_UINT8)
                                          : sizeof(T) == 2 ? (std::is_signed_v<T> ? THALWEG_INT16 : THALWEG_UINT16)
                                          : sizeof(T) == 4 ? (std::is_signed_v<T> ? THALWEG_INT32 : THALWEG_UINT32)
                                                           : (std::is_signed_v<T> ? THALWEG_INT64 : THALWEG_UINT64);
};
template <>
struct element<float> {
    static constexpr thalweg_type value = THALWEG_FLOAT32;
};
template <>
struct element<double> {
    static constexpr thalweg_type value = THALWEG_FLOAT64;
};
template <>
struct element<long double> {
    static_assert(sizeof(long double) == 16, "files hold long double of 16 bytes");
    static constexpr thalweg_type value = THALWEG_LONG_DOUBLE;
};
template <>
struct element<std::complex<float>> {
    static constexpr thalweg_type value = THALWEG_COMPLEX64;
};
template <>
struct element<std::complex<double>> {
    static constexpr thalweg_type value = THALWEG_COMPLEX128;
};
template <>
struct element<std::string> {
    static constexpr thalweg_type value = THALWEG_STRING;
};

template <class T>
inline constexpr thalweg_type element_v = element<std::remove_cv_t<T>>::value;

/// Whether files can contain arrays of this type.
template <class T, class = void>
struct is_number : std::false_type {};
template <class T>
struct is_number<T, std::void_t<decltype(element<std::remove_cv_t<T>>::value)>>
    : std::bool_constant<!std::is_same_v<std::remove_cv_t<T>, std::string>> {};

// ---- Views ----

/// Contiguous elements that another object owns: from any type with data() and size(), from arrays, from pointer and size.
/// A range, so that it converts to std::span.
template <class T>
class View {
public:
    constexpr View() noexcept = default;
    constexpr View(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr View(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    template <class C, class = std::enable_if_t<!std::is_same_v<std::decay_t<C>, View> && detail::has_data<C>::value &&
                                                std::is_convertible_v<std::remove_pointer_t<decltype(std::declval<C&>().data())> (*)[], T (*)[]>>>
    constexpr View(C&& container) noexcept : data_(container.data()), size_(container.size())
    {
    }

    constexpr T* data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T* begin() const noexcept { return data_; }
    constexpr T* end() const noexcept { return data_ + size_; }
    constexpr T& operator[](std::size_t at) const noexcept { return data_[at]; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

/// Extents, one number per dimension, slowest first.
using Dims = std::vector<std::uint64_t>;

/// Place of a block in a global array. Empty `shape`: that of the group's dimensions; empty `offset`: zeros.
struct Box {
    Dims shape, offset, count;
};

/// Place of a block's elements in a larger array in memory, such as one with ghost cells.
struct Memory {
    Dims shape, offset;

    /// The interior of an array with `width` ghost cells on all sides of a block of `count`.
    static Memory ghosts(const Dims& count, std::uint64_t width)
    {
        Memory memory{count, Dims(count.size(), width)};
        for (auto& extent : memory.shape) extent += 2 * width;
        return memory;
    }
};

/// The box given by the group's dimensions.
inline const Box declared{};

namespace detail {

inline const std::uint64_t* pointer(const Dims& dims) { return dims.empty() ? nullptr : dims.data(); }

inline thalweg_memory c_memory(const Memory& memory, const std::string& name)
{
    if (memory.shape.size() != memory.offset.size()) refuse("shape and offset of a memory have not as many dimensions", name);
    return {memory.shape.size(), pointer(memory.shape), pointer(memory.offset)};
}

inline thalweg_box c_box(const Box& box, const std::string& name)
{
    const std::size_t ndim = box.count.size();
    if ((!box.shape.empty() && box.shape.size() != ndim) || (!box.offset.empty() && box.offset.size() != ndim))
        refuse("shape, offset and count of a box have not as many dimensions", name);
    return {ndim, pointer(box.shape), pointer(box.offset), box.count.data()};
}

/// A block's elements, from any supported type.
struct Elements {
    const void* data;
    std::size_t count;
    std::size_t size; // bytes per element
    thalweg_type type;
    Dims extents; // if the type has extents
};

template <class T>
Elements elements(const T* data, std::size_t count, Dims extents = {})
{
    static_assert(is_number<T>::value, "files have no such element type; for bool write std::uint8_t");
    return {count ? data : nullptr, count, sizeof(T), element_v<T>, std::move(extents)};
}

template <class T>
struct is_view : std::false_type {};
template <class T>
struct is_view<View<T>> : std::true_type {};
#if defined(__cpp_lib_span)
template <class T, std::size_t N>
struct is_view<std::span<T, N>> : std::true_type {};
#endif

template <class T>
struct is_mdspan : std::false_type {};
#if defined(__cpp_lib_mdspan)
template <class T, class E, class L, class A>
struct is_mdspan<std::mdspan<T, E, L, A>> : std::true_type {
    static_assert(std::is_same_v<L, std::layout_right>, "the elements of an mdspan must be contiguous, row by row: std::layout_right");
};
template <class T, class E, class L, class A>
struct is_view<std::mdspan<T, E, L, A>> : std::true_type {};
#endif

template <class V>
Elements elements_of(const V& values)
{
    if constexpr (is_mdspan<V>::value) {
        Dims extents;
        for (std::size_t d = 0; d < values.rank(); d++) extents.push_back(static_cast<std::uint64_t>(values.extent(d)));
        return elements(values.data_handle(), static_cast<std::size_t>(values.size()), std::move(extents));
    } else if constexpr (std::is_array_v<V>) {
        using T = std::remove_all_extents_t<V>;
        return elements(reinterpret_cast<const T*>(&values), sizeof(V) / sizeof(T));
    } else {
        static_assert(has_data<const V>::value, "neither a number, nor a text, nor a container of contiguous numbers");
        return elements(values.data(), static_cast<std::size_t>(values.size()));
    }
}

} // namespace detail

// ---- Outputs ----

enum class Mode { write = THALWEG_WRITE, append = THALWEG_APPEND, update = THALWEG_UPDATE };

/// An output that was closed and may still be in flight (method parameter async=yes). Without a wait, its failure is reported by the next
/// open of the file, by Session::wait_all or by Session::close, on all ranks.
class Pending {
public:
    Pending(Pending&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Pending& operator=(Pending&& other) noexcept
    {
        if (this != &other) {
            thalweg_pending_drop(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() { thalweg_pending_drop(handle_); }

    /// Whether the output has ended; throws its failure. Not collective.
    bool test()
    {
        int complete = 0;
        detail::check(thalweg_test(handle_, &complete));
        return complete != 0;
    }

    /// Waits until the output has ended; throws its failure. Not collective. Call it once.
    void wait() { detail::check(thalweg_wait(std::exchange(handle_, nullptr))); }

private:
    friend class Output;
    explicit Pending(thalweg_pending* handle) : handle_(handle) {}
    thalweg_pending* handle_;
};

/// Memory of the library for `size()` elements, of Session::alloc: the program fills it, and Output::commit writes it without a copy. Freed
/// by the destructor unless it was committed. It begins at a multiple of 64 bytes, with zeros or values of an earlier block.
template <class T>
class BlockMemory {
    static_assert(is_number<T>::value, "memory of a block has numbers");

public:
    BlockMemory(BlockMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    BlockMemory& operator=(BlockMemory&& other) noexcept
    {
        if (this != &other) {
            thalweg_free(data_);
            data_ = std::exchange(other.data_, nullptr);
            size_ = std::exchange(other.size_, 0);
        }
        return *this;
    }
    BlockMemory(const BlockMemory&) = delete;
    BlockMemory& operator=(const BlockMemory&) = delete;
    ~BlockMemory() { thalweg_free(data_); }

    T* data() noexcept { return data_; }
    const T* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    T* begin() noexcept { return data_; }
    T* end() noexcept { return data_ + size_; }
    const T* begin() const noexcept { return data_; }
    const T* end() const noexcept { return data_ + size_; }
    T& operator[](std::size_t i) noexcept { return data_[i]; }
    const T& operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    friend class Session;
    friend class Output;
    BlockMemory(void* data, std::size_t size) : data_(static_cast<T*>(data)), size_(size) {}
    T* data_;
    std::size_t size_;
};

/// One step of one group, from open to close.
class Output {
public:
    Output(Output&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}
    Output& operator=(Output&& other) noexcept
    {
        if (this != &other) {
            drop_loudly();
            handle_ = std::exchange(other.handle_, nullptr);
            path_ = std::move(other.path_);
        }
        return *this;
    }
    Output(const Output&) = delete;
    Output& operator=(const Output&) = delete;

    /// Drops an output that was not closed: its step is not written, and one line on standard error reports that. Not
    /// collective. If the program continues, call abandon() before, which informs the other ranks.
    ~Output() { drop_loudly(); }

    /// The step that is being written.
    Step step() const { return static_cast<Step>(thalweg_output_step(need_open())); }
    bool is_open() const noexcept { return handle_ != nullptr; }

    /// Optional: announces the bytes that this rank will write, so that their buffer is allocated in one piece.
    Output& reserve(std::uint64_t bytes)
    {
        detail::check(thalweg_output_reserve(need_open(), bytes));
        return *this;
    }

    /// Writes a number, a text, or a block with the group's dimensions: from a vector, array, span, View, mdspan. The
    /// memory may be reused when this returns.
    template <class V>
    Output& write(const std::string& name, const V& value)
    {
        if constexpr (is_number<V>::value) {
            return put(name, detail::elements(&value, 1), declared, nullptr, 0);
        } else if constexpr (std::is_convertible_v<const V&, std::string_view>) {
            const std::string_view text = value;
            return put(name, {text.empty() ? "" : text.data(), text.size(), 1, THALWEG_STRING, {}}, declared, nullptr, 0);
        } else {
            return put(name, detail::elements_of(value), declared, nullptr, 0);
        }
    }

    /// Writes a block at a place: {{ny, nx}, {first, 0}, {rows, nx}}. The count of an mdspan follows from its extents.
    template <class V>
    Output& write(const std::string& name, const V& values, const Box& box)
    {
        return put(name, detail::elements_of(values), box, nullptr, 0);
    }

    /// Writes a block from a part of a larger array.
    template <class V>
    Output& write(const std::string& name, const V& values, const Box& box, const Memory& memory)
    {
        return put(name, detail::elements_of(values), box, &memory, 0);
    }

    /// Like write, without a copy: the memory must not change until close.
    template <class V>
    Output& write_deferred(const std::string& name, V&& values, const Box& box = declared)
    {
        return put(name, lasting(std::forward<V>(values)), box, nullptr, 1);
    }
    template <class V>
    Output& write_deferred(const std::string& name, V&& values, const Box& box, const Memory& memory)
    {
        return put(name, lasting(std::forward<V>(values)), box, &memory, 1);
    }

    /// Like write, of memory of Session::alloc, which becomes the library's: nothing is copied, also by methods with async=yes. If this
    /// throws, the memory is unchanged.
    template <class T>
    Output& commit(const std::string& name, BlockMemory<T>&& memory, const Box& box = declared)
    {
        put(name, {memory.data_, memory.size_, sizeof(T), element_v<T>, {}}, box, nullptr, THALWEG_COMMITTED);
        memory.data_ = nullptr;
        memory.size_ = 0;
        return *this;
    }

    /// Like write, of memory that must not change until the output has ended (Pending::wait, Session::wait_all), and may be read meanwhile:
    /// nothing is copied, also by methods with async=yes.
    template <class V>
    Output& lend(const std::string& name, V&& values, const Box& box = declared)
    {
        return put(name, lasting(std::forward<V>(values)), box, nullptr, THALWEG_LENT);
    }

    /// Collective: commits the step, which is then readable. The output is closed even after a failure.
    void close()
    {
        need_open();
        detail::check(thalweg_output_close(std::exchange(handle_, nullptr)));
    }

    /// Collective: like close; with the method's parameter async=yes the output is written in the background. Its failure is thrown by the
    /// result.
    Pending start_close()
    {
        need_open();
        thalweg_pending* pending = nullptr;
        detail::check(thalweg_output_start_close(std::exchange(handle_, nullptr), &pending));
        return Pending(pending);
    }

    /// Collective, instead of close, on a rank that cannot continue: close fails on the other ranks and names this rank and
    /// `why`; the data of the other ranks are kept.
    void abandon(const std::string& why) noexcept
    {
        if (handle_) thalweg_output_abandon(std::exchange(handle_, nullptr), why.c_str());
    }

    /// Drops the output without a message, for handlers of exceptions after which the step is known to be lost.
    void drop() noexcept { thalweg_output_drop(std::exchange(handle_, nullptr)); }

    thalweg_output* handle() const noexcept { return handle_; }

private:
    friend class Session;
    Output(thalweg_output* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

    thalweg_output* need_open() const
    {
        if (!handle_) detail::refuse("the output is not open");
        return handle_;
    }

    template <class V>
    static detail::Elements lasting(V&& values)
    {
        using Plain = std::remove_cv_t<std::remove_reference_t<V>>;
        static_assert(std::is_lvalue_reference_v<V> || detail::is_view<Plain>::value,
                      "a temporary does not last until close: write it, or keep it in a variable");
        return detail::elements_of(std::as_const(values));
    }

    /// Common part of all writes: one call of thalweg_put.
    Output& put(const std::string& name, const detail::Elements& elements, const Box& box, const Memory* memory, int deferred)
    {
        thalweg_block_data block{};
        block.data = elements.data;
        // Memory that is committed may be longer than the block.
        block.bytes = deferred == THALWEG_COMMITTED ? 0 : elements.count * elements.size;
        block.check_type = 1;
        block.type = elements.type;
        block.deferred = deferred;
        thalweg_box c_box{};
        thalweg_memory c_memory{};
        Box with_count;
        const Box* place = &box;
        if (box.count.empty() && !memory && !(box.shape.empty() && box.offset.empty())) {
            // The extents of an mdspan are the block's; other lists of elements have one dimension.
            with_count = box;
            with_count.count = elements.extents.empty() ? Dims{elements.count} : elements.extents;
            place = &with_count;
        }
        if (!place->count.empty()) {
            c_box = detail::c_box(*place, name);
            block.box = &c_box;
        }
        if (memory) {
            c_memory = detail::c_memory(*memory, name);
            block.memory = &c_memory;
        }
        detail::check(thalweg_put(need_open(), name.c_str(), &block));
        return *this;
    }

    void drop_loudly() noexcept
    {
        if (!handle_) return;
        thalweg_output_drop(std::exchange(handle_, nullptr));
        std::fprintf(stderr, "thalweg: an output to %s was not closed; its step is not written\n", path_.c_str());
    }

    thalweg_output* handle_;
    std::string path_;
};

// ---- Groups and sessions ----

enum class Statistics {
    off = THALWEG_STATISTICS_OFF,
    minmax = THALWEG_STATISTICS_MINMAX,
    full = THALWEG_STATISTICS_FULL,
    by_default = THALWEG_STATISTICS_DEFAULT, // all statistics; other libraries see minimum and maximum only
};

/// A group, declared in code or in XML; valid as long as its session. All ranks must declare the same group.
class Group {
public:
    /// Adds a method; each method writes the whole group. `parameters`: "key=value;key=value".
    Group& method(const std::string& name, const std::string& parameters = {}, const std::string& base_path = {})
    {
        detail::check(thalweg_group_method(handle_, name.c_str(), parameters.c_str(), base_path.c_str()));
        return *this;
    }
    /// Sets the statistics to record.
    Group& statistics(Statistics level)
    {
        detail::check(thalweg_group_statistics(handle_, static_cast<thalweg_statistics>(level)));
        return *this;
    }
    /// One value, or one text (std::string).
    template <class T>
    Group& scalar(const std::string& name)
    {
        detail::check(thalweg_define_scalar(handle_, name.c_str(), element_v<T>));
        return *this;
    }
    /// An array with dimensions given as expressions of the group's scalars: ("T", "rows,nx", "ny,nx", "first,0"); without
    /// the last two, a local array.
    template <class T>
    Group& array(const std::string& name, const std::string& dimensions, const std::string& global = {}, const std::string& offset = {})
    {
        detail::check(thalweg_define_array(handle_, name.c_str(), element_v<T>, dimensions.c_str(), global.c_str(), offset.c_str()));
        return *this;
    }
    /// A global array of this shape; a write without a box writes the whole array.
    template <class T>
    Group& global(const std::string& name, const Dims& shape)
    {
        detail::check(thalweg_define_global(handle_, name.c_str(), element_v<T>, shape.size(), shape.data()));
        return *this;
    }
    /// A global array of `ndim` dimensions; each box gives the shape too.
    template <class T>
    Group& global(const std::string& name, std::size_t ndim)
    {
        detail::check(thalweg_define_global(handle_, name.c_str(), element_v<T>, ndim, nullptr));
        return *this;
    }
    /// A local array of `ndim` dimensions; each box gives its extents.
    template <class T>
    Group& local(const std::string& name, std::size_t ndim)
    {
        detail::check(thalweg_define_local(handle_, name.c_str(), element_v<T>, ndim));
        return *this;
    }
    /// An attribute: a number, a text, or several numbers.
    template <class V>
    Group& attribute(const std::string& name, const V& value)
    {
        if constexpr (is_number<V>::value) {
            detail::check(thalweg_define_attribute(handle_, name.c_str(), element_v<V>, 1, &value));
        } else if constexpr (std::is_convertible_v<const V&, std::string_view>) {
            const std::string text{std::string_view(value)};
            detail::check(thalweg_define_attribute(handle_, name.c_str(), THALWEG_STRING, 1, text.c_str()));
        } else {
            const auto values = detail::elements_of(value);
            detail::check(thalweg_define_attribute(handle_, name.c_str(), values.type, values.count, values.data));
        }
        return *this;
    }
    /// An attribute of several texts.
    Group& attribute(const std::string& name, const std::vector<std::string>& texts)
    {
        std::vector<const char*> pointers;
        for (const auto& text : texts) pointers.push_back(text.c_str());
        detail::check(thalweg_define_attribute(handle_, name.c_str(), THALWEG_STRINGS, pointers.size(), pointers.data()));
        return *this;
    }
    /// An attribute with the scalar's value at the close of the step.
    Group& attribute_of(const std::string& name, const std::string& variable)
    {
        detail::check(thalweg_define_attribute_of(handle_, name.c_str(), variable.c_str()));
        return *this;
    }
    /// Chooses a transform ("zlib:5") for a variable; empty for none.
    Group& transform(const std::string& variable, const std::string& transform)
    {
        detail::check(thalweg_set_transform(handle_, variable.c_str(), transform.c_str()));
        return *this;
    }

    thalweg_group* handle() const noexcept { return handle_; }

private:
    friend class Session;
    explicit Group(thalweg_group* handle) : handle_(handle) {}
    thalweg_group* handle_;
};

/// The configuration of a program's output: groups, methods, the buffer.
class Session {
public:
    /// For one process, without XML: groups are declared in code.
    Session() { detail::check(thalweg_session_open(&handle_, nullptr)); }
    /// For one process, with the groups and methods of an XML file.
    explicit Session(const std::string& config) { detail::check(thalweg_session_open(&handle_, config.c_str())); }
    /// For one process, with the XML as text; `name` appears in messages.
    static Session from_text(const std::string& xml, const std::string& name = "configuration")
    {
        Session session(nullptr, 0);
        detail::check(thalweg_session_open_text(&session.handle_, xml.c_str(), name.c_str()));
        return session;
    }
#if defined(THALWEG_H_MPI)
    /// Collective: like the constructors for one process. `comm` is duplicated.
    explicit Session(MPI_Comm comm) { detail::check(thalweg_session_open_mpi(&handle_, nullptr, comm)); }
    Session(const std::string& config, MPI_Comm comm) { detail::check(thalweg_session_open_mpi(&handle_, config.c_str(), comm)); }
    static Session from_text(const std::string& xml, const std::string& name, MPI_Comm comm)
    {
        Session session(nullptr, 0);
        detail::check(thalweg_session_open_text_mpi(&session.handle_, xml.c_str(), name.c_str(), comm));
        return session;
    }
#endif

    Session(Session&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), exceptions_(other.exceptions_) {}
    Session& operator=(Session&& other) noexcept
    {
        if (this != &other) {
            finish();
            handle_ = std::exchange(other.handle_, nullptr);
            exceptions_ = other.exceptions_;
        }
        return *this;
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Without a call of close(): closes this rank's files for good, not collectively; a failure is one line on standard
    /// error. During the unwinding of an exception, files are not marked as finished, so that followers learn that the
    /// writer failed.
    ~Session() { finish(); }

    /// Collective: closes all files for good.
    void close() { detail::check(thalweg_session_close(std::exchange(handle_, nullptr))); }

    Group declare(const std::string& name)
    {
        thalweg_group* group = nullptr;
        detail::check(thalweg_group_declare(&group, handle_, name.c_str()));
        return Group(group);
    }
    /// A group that was declared before, for example in XML.
    Group group(const std::string& name)
    {
        thalweg_group* group = nullptr;
        detail::check(thalweg_group_find(&group, handle_, name.c_str()));
        return Group(group);
    }

    /// Sets the buffer limit: memory for outputs in this process. 0: no buffering.
    void set_buffer(std::uint64_t bytes) { detail::check(thalweg_session_set_buffer(handle_, bytes)); }

    /// Marks the start of a calculation phase, for methods that work in the background and for profiles. Not collective.
    void begin_calculation() { detail::check(thalweg_session_begin_calculation(handle_)); }
    /// Marks the end of a calculation phase. Not collective.
    void end_calculation() { detail::check(thalweg_session_end_calculation(handle_)); }
    /// Marks the end of an iteration. Not collective.
    void end_iteration() { detail::check(thalweg_session_end_iteration(handle_)); }

    /// Collective: waits for all outputs in flight; throws the first failure that was not reported before.
    void wait_all() { detail::check(thalweg_wait_all(handle_)); }

    /// Memory for `size` elements, to be filled and committed. It counts in the buffer limit; if that has no room, waits until outputs in
    /// flight have ended. Not collective.
    template <class T>
    BlockMemory<T> alloc(std::size_t size)
    {
        void* memory = nullptr;
        if (size > SIZE_MAX / sizeof(T)) detail::refuse("memory of more than 2^64 bytes");
        detail::check(thalweg_alloc(handle_, size * sizeof(T), &memory));
        return BlockMemory<T>(memory, size);
    }


    /// Whether an output is wanted that the program is about to open (docs/guide/steering.md). `step`: the program's number of the output,
    /// which grows from output to output. Not collective, but all ranks ask alike and get the same answer.
    bool wanted(const std::string& group, const std::string& path, std::uint64_t step) const
    {
        int answer = 0;
        detail::check(thalweg_wanted(handle_, group.c_str(), path.c_str(), step, nullptr, &answer));
        return answer != 0;
    }
    /// Whether the next output writes an array. Not collective.
    bool wants_array(const std::string& group, const std::string& path, const std::string& name) const
    {
        int answer = 0;
        detail::check(thalweg_wanted(handle_, group.c_str(), path.c_str(), 0, name.c_str(), &answer));
        return answer != 0;
    }
    /// Whether someone has asked that the program stops; the same on all ranks after the same output.
    bool stop_requested() const
    {
        int answer = 0;
        detail::check(thalweg_stop_requested(handle_, &answer));
        return answer != 0;
    }

    /// Collective over the session's ranks: opens an output.
    Output open(const std::string& group, const std::string& path, Mode mode)
    {
        thalweg_output* output = nullptr;
        detail::check(thalweg_output_open(&output, handle_, group.c_str(), path.c_str(), static_cast<thalweg_mode>(mode)));
        return Output(output, path);
    }
    /// Collective: opens an output after the given step and drops all later steps, for a restart from a checkpoint.
    Output open_after(const std::string& group, const std::string& path, Step step)
    {
        thalweg_output* output = nullptr;
        detail::check(thalweg_output_open_after(&output, handle_, group.c_str(), path.c_str(), from_start(step)));
        return Output(output, path);
    }
#if defined(THALWEG_H_MPI)
    Output open(const std::string& group, const std::string& path, Mode mode, MPI_Comm comm)
    {
        thalweg_output* output = nullptr;
        detail::check(thalweg_output_open_mpi(&output, handle_, group.c_str(), path.c_str(), static_cast<thalweg_mode>(mode), comm));
        return Output(output, path);
    }
    Output open_after(const std::string& group, const std::string& path, Step step, MPI_Comm comm)
    {
        thalweg_output* output = nullptr;
        detail::check(thalweg_output_open_after_mpi(&output, handle_, group.c_str(), path.c_str(), from_start(step), comm));
        return Output(output, path);
    }
#endif

    thalweg_session* handle() const noexcept { return handle_; }

private:
    Session(std::nullptr_t, int) noexcept {}

    // A negative step becomes a step beyond every file, so that the open fails on all ranks.
    static std::uint64_t from_start(Step step) noexcept { return step < 0 ? UINT64_MAX : static_cast<std::uint64_t>(step); }

    void finish() noexcept
    {
        if (!handle_) return;
        if (std::uncaught_exceptions() > exceptions_) {
            thalweg_session_drop(handle_);
        } else if (thalweg_session_finish(handle_) != THALWEG_OK) {
            std::fprintf(stderr, "thalweg: closing a session: %s\n", thalweg_last_error()->text);
        }
        handle_ = nullptr;
    }

    thalweg_session* handle_ = nullptr;
    int exceptions_ = std::uncaught_exceptions();
};

// ---- Readers ----

inline constexpr std::uint64_t all_steps = UINT64_MAX;

/// The part of a variable to read.
class Selection {
public:
    /// The whole global array, block 0 of a local array, or the scalar.
    Selection() = default;
    static Selection box(Dims offset, Dims count)
    {
        Selection s;
        s.kind_ = THALWEG_SELECT_BOX;
        s.ndim_ = count.size();
        if (offset.size() != count.size()) detail::refuse("offset and count of a box have not as many dimensions");
        s.offset_ = std::move(offset);
        s.count_ = std::move(count);
        return s;
    }
    /// Every so many elements of a box along each dimension, from its first one.
    static Selection box(Dims offset, Dims count, Dims stride)
    {
        Selection s = box(std::move(offset), std::move(count));
        if (stride.size() != s.ndim_) detail::refuse("stride and count of a box have not as many dimensions");
        s.kind_ = THALWEG_SELECT_STRIDED;
        s.stride_ = std::move(stride);
        return s;
    }
    static Selection points(const std::vector<Dims>& points)
    {
        Selection s;
        s.kind_ = THALWEG_SELECT_POINTS;
        s.ndim_ = points.empty() ? 1 : points.front().size();
        s.number_ = points.size();
        for (const auto& point : points) {
            if (point.size() != s.ndim_) detail::refuse("points have not as many dimensions");
            s.offset_.insert(s.offset_.end(), point.begin(), point.end());
        }
        return s;
    }
    /// One written block, by its number in the step.
    static Selection block(std::uint64_t number)
    {
        Selection s;
        s.kind_ = THALWEG_SELECT_BLOCK;
        s.number_ = number;
        return s;
    }

    thalweg_selection c() const noexcept
    {
        thalweg_selection c{};
        c.kind = kind_;
        c.ndim = ndim_;
        if (kind_ == THALWEG_SELECT_BOX || kind_ == THALWEG_SELECT_STRIDED) c.offset = offset_.data(), c.count = count_.data();
        if (kind_ == THALWEG_SELECT_STRIDED) c.stride = stride_.data();
        if (kind_ == THALWEG_SELECT_POINTS) c.points = offset_.data(), c.npoints = number_;
        if (kind_ == THALWEG_SELECT_BLOCK) c.block = number_;
        return c;
    }

private:
    thalweg_selection_kind kind_ = THALWEG_SELECT_ALL;
    std::size_t ndim_ = 0;
    Dims offset_, count_, stride_;
    std::uint64_t number_ = 0;
};

inline Selection all() { return {}; }
inline Selection box(Dims offset, Dims count) { return Selection::box(std::move(offset), std::move(count)); }
inline Selection box(Dims offset, Dims count, Dims stride)
{
    return Selection::box(std::move(offset), std::move(count), std::move(stride));
}
inline Selection points(const std::vector<Dims>& list) { return Selection::points(list); }
inline Selection block(std::uint64_t number) { return Selection::block(number); }

/// Kind of a variable.
enum class Sort {
    scalar = THALWEG_SCALAR,           ///< one value or text
    local_value = THALWEG_LOCAL_VALUE, ///< one value per writer; reads as an array of one dimension
    global = THALWEG_GLOBAL,           ///< blocks of one array
    local = THALWEG_LOCAL              ///< unrelated arrays
};

struct Variable {
    std::string name, group;
    thalweg_type type;
    Sort sort;
    Dims shape;                       ///< in the first step; of block 0 for local arrays
    bool shape_changes;               ///< whether other steps or blocks have other shapes
    std::vector<Step> steps;          ///< in which it was written, ascending
    std::uint64_t blocks;             ///< over all steps
    std::string transform;            ///< empty for none
};

/// Recorded statistics of values; NaN and infinities are excluded.
struct Summary {
    std::uint64_t blocks, elements;
    std::optional<double> min, max; ///< for complex numbers, of their magnitudes
    std::optional<double> mean, deviation;

    /// Minimum and maximum in the variable's own type.
    template <class T>
    std::optional<std::pair<T, T>> bounds() const
    {
        if (!min) return std::nullopt;
        std::pair<T, T> both;
        std::memcpy(&both.first, c.min_bytes, sizeof(T));
        std::memcpy(&both.second, c.max_bytes, sizeof(T));
        return both;
    }

    explicit Summary(const thalweg_summary& from) : blocks(from.blocks), elements(from.elements), c(from)
    {
        if (from.has_bounds) min = from.min, max = from.max;
        if (from.has_mean) mean = from.mean, deviation = from.deviation;
    }

    thalweg_summary c;
};

struct Block {
    Dims offset, count;
    std::optional<int> subfile; ///< none: the file itself
    Summary summary;
};

/// Timeouts; negative: no limit.
using Seconds = std::chrono::duration<double>;
inline constexpr Seconds forever{-1.0};

/// Result of advancing in a followed file.
enum class Next { step, not_yet, end, writer_died };

/// A file open for reading.
class Reader {
public:
    /// Not collective.
    explicit Reader(const std::string& path) { detail::check(thalweg_reader_open(&handle_, path.c_str())); }
    /// Waits for the file of a running writer and for its first step, which becomes the current step.
    static Reader follow(const std::string& path, Seconds timeout = forever)
    {
        Reader reader;
        detail::check(thalweg_reader_follow(&reader.handle_, path.c_str(), timeout.count()));
        return reader;
    }
#if defined(THALWEG_H_MPI)
    /// Collective: all ranks open the file, or none.
    Reader(const std::string& path, MPI_Comm comm) { detail::check(thalweg_reader_open_mpi(&handle_, path.c_str(), comm)); }
    /// Collective, as are later calls of advance(): all ranks are at the same step.
    static Reader follow(const std::string& path, Seconds timeout, MPI_Comm comm)
    {
        Reader reader;
        detail::check(thalweg_reader_follow_mpi(&reader.handle_, path.c_str(), timeout.count(), comm));
        return reader;
    }
#endif

    Reader(Reader&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Reader& operator=(Reader&& other) noexcept
    {
        if (this != &other) {
            thalweg_reader_close(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { thalweg_reader_close(handle_); }

    /// The current step of a following reader.
    Step step() const { return static_cast<Step>(thalweg_reader_step(handle_)); }
    /// Advances to the next step.
    Next advance(Seconds timeout = forever) { return go(0, timeout); }
    /// Advances to the newest step.
    Next advance_to_last(Seconds timeout = forever) { return go(1, timeout); }

    /// Sets the checks of later reads: "compared", "checked" (with checksums) or "unchecked".
    void set_reads(const std::string& reads) { detail::check(thalweg_reader_set_reads(handle_, reads.c_str())); }
    /// Sets how many decimal digits later reads keep of real and complex numbers, 0 for all: through a server fewer bytes come.
    void set_digits(std::uint32_t digits) { detail::check(thalweg_reader_set_digits(handle_, digits)); }
    /// Number of blocks that "checked" reads could not check because they have no checksum.
    std::uint64_t blocks_without_checksum() const
    {
        std::uint64_t blocks = 0;
        detail::check(thalweg_reader_blocks_without_checksum(handle_, &blocks));
        return blocks;
    }

    /// Number of steps of the file.
    Step steps() const { return static_cast<Step>(info().steps); }
    thalweg_file_info info() const
    {
        thalweg_file_info info{};
        detail::check(thalweg_reader_info(handle_, &info));
        return info;
    }
    std::vector<std::string> variables() const { return names(thalweg_reader_variable_name, info().variables); }
    std::vector<std::string> attributes() const { return names(thalweg_reader_attribute_name, info().attributes); }
    std::vector<std::string> groups() const { return names(thalweg_reader_group_name, info().groups); }

    bool has(const std::string& name) const
    {
        const thalweg_variable* v = nullptr;
        const int status = thalweg_reader_variable(handle_, name.c_str(), &v);
        if (status != THALWEG_NOT_FOUND) detail::check(status);
        return status == THALWEG_OK;
    }
    Variable variable(const std::string& name) const
    {
        const thalweg_variable* v = nullptr;
        detail::check(thalweg_reader_variable(handle_, name.c_str(), &v));
        return {v->name, v->group, v->type, static_cast<Sort>(v->kind), dims(v->shape, v->ndim), v->shape_changes != 0,
                std::vector<Step>(v->steps, v->steps + v->nsteps), v->blocks, v->transform ? v->transform : ""};
    }
    Dims shape(const std::string& name, Step step = last) const
    {
        Dims shape(256);
        std::size_t ndim = 0;
        detail::check(thalweg_reader_shape(handle_, name.c_str(), step, shape.size(), shape.data(), &ndim));
        shape.resize(ndim);
        return shape;
    }
    /// Recorded statistics of `count` steps from `step` on. Reads no values.
    Summary summary(const std::string& name, Step step = 0, std::uint64_t count = all_steps) const
    {
        thalweg_summary summary{};
        detail::check(thalweg_reader_summary(handle_, name.c_str(), step, count, &summary));
        return Summary(summary);
    }
    std::vector<Block> blocks(const std::string& name, Step step = last) const
    {
        thalweg_blocks* found = nullptr;
        detail::check(thalweg_reader_blocks(handle_, name.c_str(), step, &found));
        const std::unique_ptr<thalweg_blocks, void (*)(thalweg_blocks*)> owner(found, thalweg_blocks_free);
        std::vector<Block> blocks;
        for (std::size_t n = 0; n < found->count; n++) {
            const thalweg_block& b = found->block[n];
            blocks.push_back({dims(b.offset, b.ndim), dims(b.count, b.ndim),
                              b.subfile < 0 ? std::nullopt : std::optional<int>(static_cast<int>(b.subfile)), Summary(b.summary)});
        }
        return blocks;
    }

    /// The last written value of an attribute: attribute<double>, <std::string>, <std::vector<double>>,
    /// <std::vector<std::string>>.
    template <class T>
    T attribute(const std::string& name) const
    {
        const thalweg_attribute* a = nullptr;
        detail::check(thalweg_reader_attribute(handle_, name.c_str(), &a));
        return Attribute<T>::of(*a, name);
    }

    /// Reads into new memory; elements that no block covers are 0.
    template <class T>
    std::vector<T> read(const std::string& name, Step step = last, const Selection& selection = {}) const
    {
        return read_steps<T>(name, step, 1, selection);
    }
    /// Reads the same selection of several steps, one after the other in the result.
    template <class T>
    std::vector<T> read_steps(const std::string& name, Step step, std::uint64_t count, const Selection& selection = {}) const
    {
        static_assert(is_number<T>::value, "files have no such element type");
        const thalweg_selection c = selection.c();
        thalweg_request request = requested<T>(name, step, count, c);
        std::uint64_t bytes = 0;
        detail::check(thalweg_get_bytes(handle_, &request, &bytes));
        std::vector<T> values(static_cast<std::size_t>(bytes / sizeof(T)));
        request.data = values.data();
        request.bytes = bytes;
        detail::check(thalweg_get(handle_, &request));
        return values;
    }
    /// Reads one number, or one text (std::string).
    template <class T>
    T read_value(const std::string& name, Step step = last) const
    {
        const thalweg_selection c{};
        thalweg_request request = requested<T>(name, step, 1, c);
        if constexpr (std::is_same_v<T, std::string>) {
            std::uint64_t bytes = 0;
            detail::check(thalweg_get_bytes(handle_, &request, &bytes));
            std::string text(static_cast<std::size_t>(bytes), '\0');
            request.data = text.data();
            request.bytes = bytes;
            detail::check(thalweg_get(handle_, &request));
            return text;
        } else {
            T value{};
            request.data = &value;
            request.bytes = sizeof value;
            detail::check(thalweg_get(handle_, &request));
            return value;
        }
    }
    /// Reads into existing memory: a vector, array, span, View or mdspan of the right size. Elements that no block covers
    /// keep their values.
    template <class V>
    void read_into(const std::string& name, V&& out, Step step = last, const Selection& selection = {}) const
    {
        get(name, out, step, selection, nullptr, thalweg_get);
    }
    /// Reads into a box of a larger array.
    template <class V>
    void read_into(const std::string& name, V&& out, Step step, const Selection& selection, const Memory& memory) const
    {
        get(name, out, step, selection, &memory, thalweg_get);
    }
    /// Schedules a read; perform() fills the memory, which must be valid until then.
    template <class V>
    void read_deferred(const std::string& name, V&& out, Step step = last, const Selection& selection = {})
    {
        static_assert(std::is_lvalue_reference_v<V> || detail::is_view<std::remove_cv_t<std::remove_reference_t<V>>>::value,
                      "a temporary is destroyed before perform()");
        get(name, out, step, selection, nullptr, thalweg_get_deferred);
    }
    /// Carries out all scheduled reads together.
    void perform() { detail::check(thalweg_perform(handle_)); }

    thalweg_reader* handle() const noexcept { return handle_; }

private:
    Reader() noexcept = default;

    static Dims dims(const std::uint64_t* numbers, std::size_t count) { return count ? Dims(numbers, numbers + count) : Dims(); }

    std::vector<std::string> names(const char* (*name)(thalweg_reader*, std::size_t), std::size_t count) const
    {
        std::vector<std::string> names;
        for (std::size_t n = 0; n < count; n++) names.emplace_back(name(handle_, n));
        return names;
    }

    Next go(int to_last, Seconds timeout)
    {
        switch (const int status = thalweg_reader_advance(handle_, to_last, timeout.count())) {
        case THALWEG_NOT_READY: return Next::not_yet;
        case THALWEG_END_OF_STREAM: return Next::end;
        case THALWEG_PEER_LOST:
            // The loss of another rank is an error; a dead writer is a result.
            if (thalweg_last_error()->object) return Next::writer_died;
            [[fallthrough]];
        default: detail::check(status); return Next::step;
        }
    }

    template <class T>
    static thalweg_request requested(const std::string& name, Step step, std::uint64_t count, const thalweg_selection& selection)
    {
        thalweg_request request{};
        request.name = name.c_str();
        request.check_type = 1;
        request.type = element_v<T>;
        request.step = step;
        request.steps = count;
        request.selection = &selection;
        return request;
    }

    template <class V>
    void get(const std::string& name, V& out, Step step, const Selection& selection, const Memory* memory,
             int (*how)(thalweg_reader*, const thalweg_request*)) const
    {
        const detail::Elements to = detail::elements_of(std::as_const(out));
        const thalweg_selection c = selection.c();
        thalweg_request request{};
        request.name = name.c_str();
        request.check_type = 1;
        request.type = to.type;
        request.step = step;
        request.selection = &c;
        request.data = mutable_data(out);
        request.bytes = to.count * to.size;
        thalweg_memory c_memory{};
        if (memory) {
            c_memory = detail::c_memory(*memory, name);
            request.memory = &c_memory;
        }
        detail::check(how(handle_, &request));
    }

    template <class V>
    static void* mutable_data(V& out)
    {
        if constexpr (detail::is_mdspan<std::remove_cv_t<V>>::value) {
            return out.data_handle(); // const elements do not compile, as intended
        } else if constexpr (std::is_array_v<V>) {
            return &out;
        } else {
            return out.data();
        }
    }

    template <class T>
    struct Attribute {
        static T of(const thalweg_attribute& a, const std::string& name)
        {
            auto values = Attribute<std::vector<T>>::of(a, name);
            if (values.size() != 1) detail::refuse(std::to_string(values.size()) + " values, not one", name);
            return std::move(values.front());
        }
    };
    template <class T>
    struct Attribute<std::vector<T>> {
        static std::vector<T> of(const thalweg_attribute& a, const std::string& name)
        {
            if (a.type != element_v<T>) detail::refuse("the attribute is of another type", name);
            std::vector<T> values;
            if constexpr (std::is_same_v<T, std::string>) {
                for (std::size_t n = 0; n < a.count; n++) values.emplace_back(a.texts[n]);
            } else {
                const T* first = static_cast<const T*>(a.values);
                values.assign(first, first + a.count);
            }
            return values;
        }
    };

    thalweg_reader* handle_ = nullptr;
};

// ---- Output windows: output in the background ----

/// Options of an output window, the same on all ranks except the bytes to commit. A field that is 0 or empty has its default.
struct WindowOptions {
    std::vector<std::uint32_t> owners{};  ///< the ranks that gather and write,
    std::uint32_t active = 0;             ///< or so many ranks, from `base` at a distance of `skip`
    std::uint32_t base = 0;
    std::uint32_t skip = 1;
    std::uint64_t owner_stripe = 0;       ///< bytes, as those that follow: see thalweg.h
    std::uint64_t write_stripe = 0;
    std::uint64_t fraction = 0;
    std::uint64_t alignment = 0;
    Seconds time_limit{0};                ///< time without any event after which the window fails
    bool durable = false;                 ///< the window is complete when its bytes are on the device
    std::uint64_t commit_offset = 0;      ///< rank 0's: bytes that are written when all others are
    std::string commit{};

    /// The same for C; valid as long as these are.
    thalweg_window_options c() const noexcept
    {
        thalweg_window_options given{};
        given.owners = owners.data();
        given.owner_count = owners.size();
        given.active = active;
        given.base = base;
        given.skip = skip;
        given.owner_stripe = owner_stripe;
        given.write_stripe = write_stripe;
        given.fraction = fraction;
        given.alignment = alignment;
        given.time_limit = time_limit.count();
        given.durable = durable;
        given.commit_offset = commit_offset;
        given.commit = commit.data();
        given.commit_bytes = commit.size();
        return given;
    }
};

/// An output window, made by Windows::start; not used longer than its file.
class Window {
public:
    /// Copies a block of numbers, or a text, to byte `offset` of the file. Returns at once while there is memory.
    template <class V>
    Window& write(std::uint64_t offset, const V& values)
    {
        const auto [data, bytes] = bytes_of(values);
        detail::check(thalweg_window_write(file_, number_, offset, data, bytes));
        return *this;
    }

    /// The same without waiting; returns how many bytes were taken, the first ones.
    template <class V>
    std::uint64_t try_write(std::uint64_t offset, const V& values)
    {
        std::uint64_t taken = 0;
        const auto [data, bytes] = bytes_of(values);
        detail::check(thalweg_window_try_write(file_, number_, offset, data, bytes, &taken));
        return taken;
    }

    /// This rank writes nothing more into the window.
    void end() { detail::check(thalweg_window_end(file_, number_)); }

    /// Whether all bytes of all ranks are written. A failure of the window is thrown, the same on all ranks.
    bool test()
    {
        int complete = 0;
        detail::check(thalweg_window_test(file_, number_, &complete));
        return complete != 0;
    }

    /// Waits until all bytes of all ranks are written. A failure of the window is thrown, the same on all ranks.
    void wait() { detail::check(thalweg_window_wait(file_, number_)); }

private:
    friend class Windows;
    Window(thalweg_windows* file, thalweg_window number) : file_(file), number_(number) {}

    template <class V>
    static std::pair<const void*, std::uint64_t> bytes_of(const V& values)
    {
        if constexpr (is_number<V>::value) {
            return {&values, sizeof values};
        } else if constexpr (std::is_convertible_v<const V&, std::string_view>) {
            const std::string_view text = values;
            return {text.data(), text.size()};
        } else {
            const auto elements = detail::elements_of(values);
            return {elements.data, static_cast<std::uint64_t>(elements.count) * elements.size};
        }
    }

    thalweg_windows* file_;
    thalweg_window number_;
};

/// A file open for output windows. Without close(), windows under way are lost.
class Windows {
public:
    /// For one process. keep: an existing file keeps its bytes. memory: most bytes held for the file; 0: 256 MiB.
    explicit Windows(const std::string& path, bool keep = false, std::uint64_t memory = 0)
    {
        detail::check(thalweg_windows_open(&handle_, path.c_str(), keep, memory));
    }
    /// Collective: processes of one machine, with MPI or without, that meet in a folder.
    static Windows of_processes(const std::string& path, const std::string& folder, std::uint32_t rank, std::uint32_t ranks,
                                Seconds within, bool keep = false, std::uint64_t memory = 0)
    {
        Windows windows;
        detail::check(thalweg_windows_open_processes(&windows.handle_, path.c_str(), keep, memory, folder.c_str(), rank, ranks,
                                                     within.count()));
        return windows;
    }
#if defined(THALWEG_H_MPI)
    /// Collective.
    Windows(const std::string& path, MPI_Comm comm, bool keep = false, std::uint64_t memory = 0)
    {
        detail::check(thalweg_windows_open_mpi(&handle_, path.c_str(), keep, memory, comm));
    }
#endif

    Windows(Windows&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), callbacks_(std::move(other.callbacks_)) {}
    Windows& operator=(Windows&& other) noexcept
    {
        if (this != &other) {
            thalweg_windows_drop(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
            callbacks_ = std::move(other.callbacks_);
        }
        return *this;
    }
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;
    ~Windows() { thalweg_windows_drop(handle_); }

    /// Every rank starts the same windows in the same order; waits for nobody.
    Window start(std::uint64_t offset, std::uint64_t length, const WindowOptions& options = {})
    {
        const thalweg_window_options given = options.c();
        thalweg_window number = 0;
        detail::check(thalweg_window_start(handle_, &number, offset, length, &given));
        return {handle_, number};
    }

    /// Calls `callback` with the window's status (thalweg_status) when it is complete, inside a later call of this process. The window
    /// is then gone. An exception that leaves the callback ends the program.
    void on_complete(const Window& window, std::function<void(int)> callback)
    {
        callbacks_.push_back(std::make_unique<std::function<void(int)>>(std::move(callback)));
        const auto call = [](thalweg_window, int status, void* context) noexcept {
            (*static_cast<std::function<void(int)>*>(context))(status);
        };
        detail::check(thalweg_window_on_complete(handle_, window.number_, call, callbacks_.back().get()));
    }

    /// Serves other ranks and writes at most one fraction.
    void progress() { detail::check(thalweg_windows_progress(handle_)); }

    /// Collective: completes all windows and closes the file.
    void close() { detail::check(thalweg_windows_close(std::exchange(handle_, nullptr))); }

    thalweg_windows* handle() const noexcept { return handle_; }

private:
    Windows() = default;

    thalweg_windows* handle_ = nullptr;
    std::vector<std::unique_ptr<std::function<void(int)>>> callbacks_{};
};

/// A file open for input windows: owners read ahead, ranks ask for bytes.
class Input {
public:
    /// For one process.
    explicit Input(const std::string& path) { detail::check(thalweg_input_open(&handle_, path.c_str(), 0)); }
    /// Collective: processes of one machine, with MPI or without, that meet in a folder.
    static Input of_processes(const std::string& path, const std::string& folder, std::uint32_t rank, std::uint32_t ranks,
                              Seconds within, std::uint64_t memory = 0)
    {
        Input input;
        detail::check(thalweg_input_open_processes(&input.handle_, path.c_str(), memory, folder.c_str(), rank, ranks, within.count()));
        return input;
    }
#if defined(THALWEG_H_MPI)
    /// Collective.
    Input(const std::string& path, MPI_Comm comm, std::uint64_t memory = 0)
    {
        detail::check(thalweg_input_open_mpi(&handle_, path.c_str(), memory, comm));
    }
#endif

    Input(Input&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Input& operator=(Input&& other) noexcept
    {
        if (this != &other) {
            thalweg_input_drop(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    ~Input() { thalweg_input_drop(handle_); }

    /// Bytes of the file when it was opened.
    std::uint64_t length() const noexcept { return thalweg_input_length(handle_); }

    /// Every rank starts the same windows in the same order; waits for nobody. Options about writing have no meaning.
    thalweg_input_window start(std::uint64_t offset, std::uint64_t length, const WindowOptions& options = {})
    {
        const thalweg_window_options given = options.c();
        thalweg_input_window window = 0;
        detail::check(thalweg_input_start(handle_, &window, offset, length, &given));
        return window;
    }

    /// Asks for `count` values from byte `offset` of the file. Returns at once.
    template <class T>
    class Request {
    public:
        /// Whether the values are there: they are then in `values`.
        bool test(std::vector<T>& values)
        {
            values.resize(count_);
            int complete = 0;
            detail::check(thalweg_input_test(file_, number_, values.data(), sizeof(T) * count_, &complete));
            return complete != 0;
        }
        /// Waits for the values.
        std::vector<T> wait()
        {
            std::vector<T> values(count_);
            detail::check(thalweg_input_wait(file_, number_, values.data(), sizeof(T) * count_));
            return values;
        }

    private:
        friend class Input;
        Request(thalweg_input* file, thalweg_input_request number, std::size_t count) : file_(file), number_(number), count_(count) {}

        thalweg_input* file_;
        thalweg_input_request number_;
        std::size_t count_;
    };
    template <class T>
    Request<T> read(thalweg_input_window window, std::uint64_t offset, std::size_t count)
    {
        static_assert(std::is_trivially_copyable_v<T>, "bytes of a file are numbers");
        thalweg_input_request number = 0;
        detail::check(thalweg_input_read(handle_, window, offset, sizeof(T) * count, &number));
        return {handle_, number, count};
    }

    /// This rank reads nothing more from the window. Returns at once.
    void end(thalweg_input_window window) { detail::check(thalweg_input_end(handle_, window)); }
    /// The same, and serves other ranks until all have ended their parts: before collective calls of the program's own.
    void finish(thalweg_input_window window) { detail::check(thalweg_input_finish(handle_, window)); }

    /// Serves other ranks and reads at most one fraction.
    void progress() { detail::check(thalweg_input_progress(handle_)); }

    /// Collective.
    void close() { detail::check(thalweg_input_close(std::exchange(handle_, nullptr))); }

    thalweg_input* handle() const noexcept { return handle_; }

private:
    Input() = default;

    thalweg_input* handle_ = nullptr;
};

/// The version of the library.
inline std::string version() { return thalweg_version(); }

} // namespace thalweg

#endif
